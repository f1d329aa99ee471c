// POST incident: everything that is known here, as the bytes of one file.
#include "daemon/api.h"
#include "daemon/audit.h"
#include "daemon/incident.h"
#include "wire/incident.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Content;
using server::Request;

namespace {

Result<IncidentRequest> ParseIncident(const Request& request) {
  IncidentRequest parsed;
  ASSIGN_OR_RETURN(parsed.target, TargetOf(request));
  const auto job = request.body.find("job");
  if (job != request.body.end()) {
    if (!job->is_string() || parsed.target)
      return Error{Code::kUsage, "an incident is of one target, of one job, or of all of this host", ""};
    parsed.job = job->get<std::string>();
  }
  if (const auto locals = request.body.find("locals"); locals != request.body.end()) {
    if (!locals->is_boolean()) return Error{Code::kUsage, "locals is true or false", ""};
    parsed.locals = locals->get<bool>();
  }
  if (const auto bytes = request.body.find("max_bytes"); bytes != request.body.end()) {
    constexpr std::uint64_t kLeast = 1U << 16;
    constexpr std::uint64_t kMost = 200U << 20;
    if (!bytes->is_number_unsigned() || bytes->get<std::uint64_t>() < kLeast ||
        bytes->get<std::uint64_t>() > kMost)
      return Error{Code::kUsage, "an incident may take between 64 kB and 200 MB", ""};
    parsed.max_bytes = bytes->get<std::uint64_t>();
  }
  // What is in variables is what code in the process could read.
  if (parsed.locals && request.right < server::Right::kEval) {
    return Error{Code::kPermission, "local variables take the right to eval",
                 "leave them out, or use another token (`probing token --rights eval`)"};
  }
  return parsed;
}

asio::awaitable<Result<Content>> PostIncident(Daemon& daemon, const Request& request) {
  const Result<IncidentRequest> parsed = ParseIncident(request);
  if (!parsed.ok()) co_return parsed.error();
  Audit("incident", {{"by", request.peer}, {"locals", parsed->locals}});
  Result<std::string> incident = co_await CollectIncident(daemon, *parsed);
  if (!incident.ok()) co_return incident.error();
  co_return Content{"application/octet-stream", std::move(*incident), 200, {}};
}

}  // namespace

void AddIncidentRoute(server::Router& router, Daemon& daemon) {
  router.AddContent("POST", wire::kIncidentRoute, server::Right::kProfile,
                    [&](const Request& request) { return PostIncident(daemon, request); });
}

}  // namespace probing::daemon
