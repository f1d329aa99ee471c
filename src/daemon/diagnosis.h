// What is wrong with the jobs here: every rule is asked, its rows are findings.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>

#include "daemon/api.h"

namespace probing::daemon {

// GET /api/v1/diagnose?target=PID&job=NAME&class=NAME&patience=SECONDS&all=true&store=URL&directory=PATH, all
// of them optional; `all` also tells deaths that were requested or are old, `store` asks one of many hosts
// instead (api_store.h), true being that of probing.store, and `directory` the recordings in it
// (recorded_job.h). The answer:
//
//   seen      of each job that lives: {job, ranks, probed, not_probed, unknown, collectives, next}
//   (coverage.h) findings  [{class, severity, job, ranks, pids, host, evidence, next, rule, since_ns}],
//   errors first, then by
//             since_ns; `also` has what only follows from it (findings.h); about another host also `node`,
//             where that is asked, and `next` is said for the caller's host
//   rules     how many were asked
//   problems  rules that could not be asked, as sentences
//   receipt   of a job with several hosts: {expected, answered, failed}, as of a query
//
// With a target only what concerns that process. REQUIRES: the request outlives the coroutine.
boost::asio::awaitable<Result<server::Json>> Diagnose(Daemon& daemon, const server::Request& request);

// The same for people and agents: a line for each finding, and what to do next.
std::string DiagnosisText(const server::Json& diagnosis);

}  // namespace probing::daemon
