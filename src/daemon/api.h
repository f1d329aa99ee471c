// What probingd answers: the routes of wire/contract.h. A file for each group of them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <string>

#include "daemon/aside.h"
#include "daemon/listening.h"
#include "daemon/queries.h"
#include "daemon/sampling.h"
#include "daemon/targets.h"
#include "server/http_server.h"
#include "server/router.h"
#include "wire/settings.h"

namespace probing::daemon {

// Lifetime: everything passed in outlives io.run(). `shutdown` makes the daemon end.
struct Daemon {
  boost::asio::io_context& io;
  Targets& targets;
  Sampling& sampling;
  Queries& queries;
  cluster::Members& members;
  wire::Settings& settings;
  Listening& listening;
  server::HttpServer& server;
  server::Access& access;
  boost::asio::thread_pool& threads;  // for what would hold up the daemon's own
  std::int64_t started_ns;            // MonotonicNs
  std::function<void()> shutdown;
  std::string file = {};  // all that is asked is asked of this recording; "" for the processes here
};

void AddRoutes(server::Router& router, Daemon& daemon);          // api.cc, and all of these:
void AddEvalRoutes(server::Router& router, Daemon& daemon);      // api_eval.cc: eval, debugger, eject
void AddConfigRoutes(server::Router& router, Daemon& daemon);    // api_config.cc
void AddInjectRoute(server::Router& router, Daemon& daemon);     // api_inject.cc
void AddSourceRoute(server::Router& router, Daemon& daemon);     // api_source.cc
void AddStackRoutes(server::Router& router, Daemon& daemon);     // api_stacks.cc: backtrace, flamegraph
void AddProfileRoute(server::Router& router, Daemon& daemon);    // api_profile.cc: torch_profile
void AddGpuMemoryRoute(server::Router& router, Daemon& daemon);  // api_gpu_memory.cc: gpu_memory
void AddIncidentRoute(server::Router& router, Daemon& daemon);   // api_incident.cc: incident
void AddServerRoutes(server::Router& router, Daemon& daemon);   // api_server.cc: listen, token, tables, ready
void AddLiveRoutes(server::Router& router, Daemon& daemon);     // api_live.cc: events, repl
void AddMetrics(server::Router& router, Daemon& daemon);        // metrics.cc
void AddMcp(server::Router& router, Daemon& daemon);            // mcp.cc
void AddDiagnosis(server::Router& router, Daemon& daemon);      // diagnosis.cc
void AddClusterRoutes(server::Router& router, Daemon& daemon);  // api_cluster.cc: node
void AddWebPage(server::Router& router, Daemon& daemon);        // web_page.cc

// What several of them need. REQUIRES of coroutines: their arguments outlive them.

template <typename Work>
auto Aside(Daemon& daemon, Work work) {
  return Aside(daemon.io, daemon.threads, std::move(work));
}

// The request's target, nothing when it names none.
Result<std::optional<pid_t>> TargetOf(const server::Request& request);
Result<pid_t> RequiredTarget(const server::Request& request);
// POST eval; also what a REPL and an agent do.
boost::asio::awaitable<Result<server::Json>> Evaluate(Daemon& daemon, const server::Request& request);
// GET backtrace.
boost::asio::awaitable<Result<server::Content>> Backtrace(Daemon& daemon, const server::Request& request);
// GET targets.
boost::asio::awaitable<Result<server::Json>> ListTargets(Daemon& daemon,
                                                         Targets::Look look = Targets::Look::kEverywhere);
// The same of the processes in Daemon::file (api_file.cc), and where they were.
boost::asio::awaitable<Result<server::Json>> ListRecorded(Daemon& daemon);
boost::asio::awaitable<Result<server::Content>> RecordedBacktrace(Daemon& daemon,
                                                                  const server::Request& request);
// All that can be asked of a file.
void AddFileRoutes(server::Router& router, Daemon& daemon);
// A query for {columns, rows}, and what it answers.
server::Request RowsRequest(std::string sql);
boost::asio::awaitable<Result<server::Json>> QueryRows(Daemon& daemon, std::string sql,
                                                       std::optional<pid_t> target = std::nullopt);
boost::asio::awaitable<Result<server::Json>> QueryRows(Daemon& daemon, server::Request request,
                                                       std::optional<pid_t> target = std::nullopt);

}  // namespace probing::daemon
