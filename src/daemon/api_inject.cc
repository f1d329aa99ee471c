// Puts the probe into a process of this machine for somebody on another one.
//
// The injector is in `probing`, which does it as its user would: what it says is what they read.
#include "daemon/api.h"
#include "daemon/audit.h"
#include "daemon/own_command.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr double kDefaultSeconds = 5;
constexpr double kMaxSeconds = 60;
constexpr std::chrono::seconds kSlack{5};

// "probing: …\n  hint: …" back into its parts.
Error ErrorIn(const CommandOutcome& outcome) {
  constexpr std::string_view kError = "probing: ";
  constexpr std::string_view kHint = "hint: ";
  std::string text = outcome.err;
  while (text.ends_with('\n')) text.pop_back();
  Error error{static_cast<Code>(outcome.exit_code), text, ""};
  if (const std::size_t hint = text.find(kHint); hint != std::string::npos) {
    error.hint = text.substr(hint + kHint.size());
    error.message = text.substr(0, text.find_last_not_of(" \n", hint - 1) + 1);
  }
  if (const std::size_t begin = error.message.find(kError); begin != std::string::npos)
    error.message = error.message.substr(begin + kError.size());
  return error;
}

Answer PostInject(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Json seconds = request.body.value("timeout", Json(kDefaultSeconds));
  const bool valid = seconds.is_number() && seconds.get<double>() > 0 && seconds.get<double>() <= kMaxSeconds;
  if (!valid) co_return Error{Code::kUsage, "the timeout is a number of seconds from 0 to 60", ""};
  Audit("inject", {{"by", request.peer}, {"target", *pid}});
  const std::vector<std::string> words{"-t",        std::to_string(*pid), "inject",
                                       "--timeout", seconds.dump(),       "--json"};
  const auto patience = std::chrono::milliseconds(static_cast<int>(seconds.get<double>() * 1000)) + kSlack;
  const Result<CommandOutcome> outcome =
      co_await Aside(daemon, [&] { return RunOwnCommand(words, patience); });
  if (!outcome.ok()) co_return outcome.error();
  if (outcome->exit_code != 0) co_return ErrorIn(*outcome);
  Json report = Json::parse(outcome->out, nullptr, false);
  if (!report.is_object()) co_return Error{Code::kFailed, "`probing inject` printed no report", ""};
  co_return report;
}

}  // namespace

void AddInjectRoute(server::Router& router, Daemon& daemon) {
  router.Add("POST", wire::kInjectRoute, server::Right::kEval,
             [&](const server::Request& request) { return PostInject(daemon, request); });
}

}  // namespace probing::daemon
