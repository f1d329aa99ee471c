#include "cli/debug_client.h"

#include <unistd.h>

#include "base/clock.h"
#include "cli/evaluation.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr double kWordSeconds = 60;

DebugClient::State StateOf(std::string_view word) {
  if (word == "@paused") return DebugClient::State::kPaused;
  return word == "@running" ? DebugClient::State::kRunning : DebugClient::State::kOff;
}

// Why code was not evaluated.
Error NoAnswer(const Json& answer) {
  Error error{Code::kTimeout, "the target did not answer: " + answer.value("note", ""), ""};
  if (const auto holder = answer.find("gil_holder"); holder != answer.end()) {
    error.message += "; thread " + std::to_string(holder->value("tid", 0)) + " holds the GIL";
    for (const Json& frame : holder->value("stack", Json::array())) {
      error.message += "\n    " + frame.get<std::string>();
    }
  }
  return error;
}

}  // namespace

DebugClient::DebugClient(pid_t target)
    : target_(target), session_("debug-" + std::to_string(getpid()) + "-" + std::to_string(MonotonicNs())) {}

Result<std::int64_t> DebugClient::Beat() const {
  ASSIGN_OR_RETURN(const Json answer, PostToDaemon(std::string(wire::kDebuggerRoute), {{"target", target_}}));
  return answer.value("stops", std::int64_t{0});
}

Result<DebugClient::Answer> DebugClient::Ask(const std::string& word) const {
  ASSIGN_OR_RETURN(const Json answer, PostToDaemon(std::string(wire::kEvalRoute),
                                                   {{"target", target_},
                                                    {"code", word},
                                                    {"op", "debug"},
                                                    {"session", session_},
                                                    {"timeout", kWordSeconds},
                                                    {"gil_timeout", kGilSeconds}},
                                                   Patience::kEndless));
  const std::string outcome = answer.value("outcome", "");
  const std::string printed = answer.value("stdout", "") + answer.value("stderr", "");
  if (outcome == "raised") {
    return Answer{State::kPaused, printed + answer.value("traceback", ""), true};
  }
  if (outcome != "ok") return NoAnswer(answer);
  const std::string value = answer.value("value", "");
  const std::size_t end = value.find('\n');
  return Answer{StateOf(std::string_view(value).substr(0, end)),
                printed + (end == std::string::npos ? "" : value.substr(end + 1) + "\n"), false};
}

Result<Json> DebugClient::Question(const std::string& question) const {
  ASSIGN_OR_RETURN(const Answer answer, Ask("json " + question));
  if (answer.refused) return Error{Code::kFailed, answer.text, ""};
  Json json = Json::parse(answer.text, nullptr, false);
  if (json.is_discarded()) return Error{Code::kFailed, answer.text, ""};
  return json;
}

}  // namespace probing::cli
