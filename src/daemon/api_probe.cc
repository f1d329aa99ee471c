#include "daemon/api_probe.h"

#include "base/text.h"
#include "daemon/probe_link.h"
#include "process/status.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

// Whether a probe can answer, before one waits for it in vain.
Result<void> CheckReachable(Daemon& daemon, pid_t pid) {
  const std::string name = "process " + std::to_string(pid);
  if (daemon.targets.HasEnded(pid)) {
    return Error{Code::kNotFound, name + " has ended", "`probing list` shows what is left"};
  }
  ASSIGN_OR_RETURN(const process::Status found, process::ReadStatus(pid));
  if (found.state == 'T') {
    return Error{Code::kFailed, name + " is stopped, so its probe cannot answer",
                 "`kill -CONT " + std::to_string(pid) + "` lets it go on"};
  }
  // Seen for the first time, perhaps in a namespace we do not look into.
  return daemon.targets.Attach(pid);
}

}  // namespace

asio::awaitable<Result<wire::Message>> AskProbe(Daemon& daemon, pid_t pid, wire::Message request,
                                                std::chrono::milliseconds timeout,
                                                ProbeLink::OnPartial on_partial) {
  const Result<void> reachable = CheckReachable(daemon, pid);
  if (!reachable.ok()) co_return reachable.error();
  Result<ProbeLink> link = ProbeLink::Open(daemon.io.get_executor(), pid, wire::kMaxFrameBytes);
  if (!link.ok()) co_return link.error();
  link->EndIfSilent();
  co_return co_await link->Call(std::move(request), timeout, std::move(on_partial));
}

Json FieldsToJson(const wire::Message& message) {
  Json object = Json::object();
  for (const auto& [key, value] : message.fields()) {
    std::int64_t number = 0;
    object[key] = ParseNumber(value, number) ? Json(number) : Json(value);
  }
  return object;
}

}  // namespace probing::daemon
