// Code in targets: evaluate, interrupt, debug, and leave.
#include <array>

#include "daemon/api_probe.h"
#include "daemon/audit.h"
#include "daemon/gil_holder.h"
#include "daemon/log.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using namespace std::chrono_literals;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr auto kEvalSlack = 3000ms;  // the probe's own deadline comes first: its answer says why
constexpr double kMaxEvalSeconds = 86400;
constexpr std::size_t kAuditedCode = 1000;
// What an eval may say beyond its code; evaluate.py knows what it means.
constexpr std::array kEvalFields{"op",    "session",   "thread",    "frame",  "at",
                                 "whole", "arguments", "confirmed", "ipython"};

// Stops the evaluation of a session, wherever it is; it is answered where it was asked for.
Answer PostInterrupt(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Json session = request.body.value("session", Json(""));
  if (!session.is_string()) co_return Error{Code::kUsage, "the session of an interrupt is text", ""};
  wire::Message message = wire::Message::Request(0, "interrupt");
  message.Set("session", session.get<std::string>());
  const Result<wire::Message> answer = co_await AskProbe(daemon, *pid, std::move(message));
  if (!answer.ok()) co_return answer.error();
  co_return Json::object();
}

// A debugger says that it is still there, and learns whether a thread has stopped since.
Answer PostDebugger(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<wire::Message> answer = co_await AskProbe(daemon, *pid, wire::Message::Request(0, "debugger"));
  if (!answer.ok()) co_return answer.error();
  co_return FieldsToJson(*answer);
}

Answer PostEject(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<wire::Message> answer = co_await AskProbe(daemon, *pid, wire::Message::Request(0, "eject"));
  if (!answer.ok()) co_return answer.error();
  daemon.targets.Forget(*pid);
  Audit("eject", {{"by", request.peer}, {"target", *pid}});
  Log(LogLevel::kInfo, "target " + std::to_string(*pid) + " was asked to eject its probe");
  co_return FieldsToJson(*answer);
}

}  // namespace

Answer Evaluate(Daemon& daemon, const server::Request& request) {
  return EvaluateAloud(daemon, request, nullptr);
}

Answer EvaluateAloud(Daemon& daemon, const server::Request& request, ProbeLink::OnPartial on_partial) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const auto code = request.body.find("code");
  if (code == request.body.end() || !code->is_string()) co_return Error{Code::kUsage, "eval needs code", ""};
  wire::Message message = wire::Message::Request(0, "eval").Set("code", code->get<std::string>());
  for (const char* field : kEvalFields) {
    const auto value = request.body.find(field);
    if (value == request.body.end()) continue;
    message.Set(field, value->is_string() ? value->get<std::string>() : value->dump());
  }
  std::chrono::milliseconds patience = 24h;  // the probe has a deadline of its own
  if (const auto timeout = request.body.find("timeout"); timeout != request.body.end()) {
    const double seconds = timeout->is_number() ? timeout->get<double>() : 0;
    if (!(seconds > 0 && seconds <= kMaxEvalSeconds)) {
      co_return Error{Code::kUsage, "the timeout of an eval is a number of seconds above 0", ""};
    }
    const auto timeout_ms = std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds * 1000));
    message.Set("timeout_ms", timeout_ms);
    patience = std::chrono::milliseconds(timeout_ms) + kEvalSlack;
  }
  Audit("eval",
        {{"by", request.peer}, {"target", *pid}, {"code", code->get<std::string>().substr(0, kAuditedCode)}});
  if (const auto wait = request.body.find("gil_timeout"); wait != request.body.end() && wait->is_number()) {
    message.Set("gil_timeout_ms", static_cast<std::int64_t>(wait->get<double>() * 1000));
  }
  if (on_partial) message.Set("stream", "1");
  // When the client goes away this ends, and with it the connection: the probe takes that as
  // a cancellation of the evaluation, wherever it is in its queue.
  const Result<wire::Message> answer =
      co_await AskProbe(daemon, *pid, std::move(message), patience, std::move(on_partial));
  if (!answer.ok()) co_return answer.error();
  Json object{{"stdout", ""}, {"stderr", ""}};
  for (const auto& [key, value] : answer->fields()) {
    // Not by its looks: the value of `1+1` is the text "2".
    object[key] = key.ends_with("_us") ? Json(answer->GetNumber(key)) : Json(value);
  }
  if (const std::int64_t tid = answer->GetNumber("running_tid", 0); tid != 0) {
    const std::optional<GilHolder> thread = FindThread(*pid, static_cast<pid_t>(tid));
    object["running"] = {{"tid", tid},
                         {"for_ms", answer->GetNumber("running_ms", 0)},
                         {"stack", thread ? thread->stack : std::vector<std::string>()}};
    object.erase("running_tid");
    object.erase("running_ms");
  }
  if (answer->Get("gil") == "unavailable") {
    if (const std::optional<GilHolder> holder = FindGilHolder(*pid)) {
      object["gil_holder"] = {{"tid", holder->tid}, {"name", holder->name}, {"stack", holder->stack}};
    }
  }
  co_return object;
}

void AddEvalRoutes(server::Router& router, Daemon& daemon) {
  using server::Request;
  using enum server::Right;
  router.Add("POST", wire::kEvalRoute, kEval,
             [&](const Request& request) { return Evaluate(daemon, request); });
  router.Add("POST", wire::kInterruptRoute, kEval,
             [&](const Request& request) { return PostInterrupt(daemon, request); });
  router.Add("POST", wire::kDebuggerRoute, kEval,
             [&](const Request& request) { return PostDebugger(daemon, request); });
  router.Add("POST", wire::kEjectRoute, kEval,
             [&](const Request& request) { return PostEject(daemon, request); });
}

}  // namespace probing::daemon
