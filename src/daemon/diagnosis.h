// What is wrong with the jobs here: every rule is asked, its rows are findings.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>

#include "daemon/api.h"

namespace probing::daemon {

// GET /api/v1/diagnose?target=PID&class=NAME&patience=SECONDS, all of them optional. The answer:
//
//   findings  [{class, severity, ranks, pids, evidence, next, rule}], errors first
//   rules     how many were asked
//   problems  rules that could not be asked, as sentences
//
// With a target only what concerns that process. REQUIRES: the request outlives the coroutine.
boost::asio::awaitable<Result<server::Json>> Diagnose(Daemon& daemon, const server::Request& request);

// The same for people and agents: a line for each finding, and what to do next.
std::string DiagnosisText(const server::Json& diagnosis);

}  // namespace probing::daemon
