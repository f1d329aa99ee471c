// Which Python processes this machine has, and the probe into one of them, for somebody on another machine or
// on the web page.
//
// Both are in `probing`, which does it as its user would: what it says is what they read.
#include "daemon/api.h"
#include "daemon/audit.h"
#include "daemon/own_command.h"
#include "daemon/shared_answer.h"
#include "process/status.h"
#include "wire/contract.h"
#include "wire/processes.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr double kDefaultSeconds = 5;
constexpr double kMaxSeconds = 60;
constexpr std::chrono::seconds kSlack{5};
constexpr std::size_t kMostOfItsWords = 500;

// What `probing inject --json` says: a report, or {error: {code, message, hint}}.
Result<Json> ReportIn(const CommandOutcome& outcome) {
  Json said = Json::parse(outcome.out, nullptr, false);
  if (!said.is_object()) {  // it did not get as far as the process
    const Code code = outcome.exit_code == 0 ? Code::kFailed : static_cast<Code>(outcome.exit_code);
    return Error{code, "`probing inject` said nothing but: " + outcome.err.substr(0, kMostOfItsWords), ""};
  }
  const auto error = said.find("error");
  if (error == said.end()) return said;
  const auto text = [&](const char* key) {
    const Json value = error->is_object() ? error->value(key, Json("")) : Json("");
    return value.is_string() ? value.get<std::string>() : "";
  };
  return Error{wire::CodeFromName(text("code")), text("message"), text("hint")};
}

Answer PostInject(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Json seconds = request.body.value("timeout", Json(kDefaultSeconds));
  const bool valid = seconds.is_number() && seconds.get<double>() > 0 && seconds.get<double>() <= kMaxSeconds;
  if (!valid) co_return Error{Code::kUsage, "the timeout is a number of seconds from 0 to 60", ""};
  Audit("inject", {{"by", request.peer}, {"target", *pid}});
  if (!process::IsAlive(*pid))
    co_return Error{Code::kNotFound, "there is no process " + std::to_string(*pid), ""};
  const std::vector<std::string> words{"-t",        std::to_string(*pid), "inject",
                                       "--timeout", seconds.dump(),       "--json"};
  const auto patience = std::chrono::milliseconds(static_cast<int>(seconds.get<double>() * 1000)) + kSlack;
  const Result<CommandOutcome> outcome =
      co_await Aside(daemon, [&] { return RunOwnCommand(words, patience); });
  if (!outcome.ok()) co_return outcome.error();
  co_return ReportIn(*outcome);
}

constexpr std::chrono::seconds kListPatience{10};
constexpr std::chrono::seconds kListAge{2};  // several pages that are open share one look

asio::awaitable<Result<server::Content>> FindProcesses(Daemon& daemon) {
  const Result<CommandOutcome> outcome =
      co_await Aside(daemon, [] { return RunOwnCommand({"ps", "--json"}, kListPatience); });
  if (!outcome.ok()) co_return outcome.error();
  Json list = Json::parse(outcome->out, nullptr, false);
  if (!list.is_array())
    co_return Error{Code::kFailed, "`probing ps` failed: " + outcome->err.substr(0, kMostOfItsWords), ""};
  co_return server::Content{
      "application/json", server::JsonText(Json{{"processes", std::move(list)}}), 200, {}};
}

asio::awaitable<Result<server::Content>> GetProcesses(std::shared_ptr<SharedAnswer> shared) {
  const Result<SharedAnswer::Pointer> answer = co_await shared->Get({.age = kListAge});
  if (!answer.ok()) co_return answer.error();
  co_return **answer;
}

}  // namespace

void AddInjectRoute(server::Router& router, Daemon& daemon) {
  const auto list = std::make_shared<SharedAnswer>(daemon.io, [&] { return FindProcesses(daemon); });
  router.AddContent("GET", wire::kProcessesRoute, server::Right::kRead,
                    [list](const server::Request&) { return GetProcesses(list); });
  router.Add("POST", wire::kInjectRoute, server::Right::kEval,
             [&](const server::Request& request) { return PostInject(daemon, request); });
}

}  // namespace probing::daemon
