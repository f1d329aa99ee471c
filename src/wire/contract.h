// The HTTP contract of probingd, shared by its server and its clients.
//
//   GET  /api/v1/health                             {status, version, pid}
//   GET  /api/v1/targets                            {targets: [{pid, user, state, python, how, version,
//                                                    started_ns, command}]}
//   GET  /api/v1/status?target=PID                  {pid, …, probe: {…}}; without target: probingd's own
//   POST /api/v1/eval     {target, code, timeout?}  {outcome, stdout, stderr, value?, traceback?, note?,
//   duration_us} GET  /api/v1/config?target=PID                  {settings: [{name, value, default,
//   description}]} POST /api/v1/config   {target?, set: {name: value}}   as GET POST /api/v1/eject {target}
//   {note} POST /api/v1/shutdown                           {}
//
// Every failure is {error: {code, message, hint}}, code being CodeName() of the error. A client
// sends its version as kVersionHeader; another version than the daemon's is answered with
// kVersionMismatch before anything is done, and the client replaces the daemon.
#pragma once

#include <string_view>

#include "base/result.h"

namespace probing::wire {

inline constexpr std::string_view kHealthRoute = "/api/v1/health";
inline constexpr std::string_view kTargetsRoute = "/api/v1/targets";
inline constexpr std::string_view kStatusRoute = "/api/v1/status";
inline constexpr std::string_view kEvalRoute = "/api/v1/eval";
inline constexpr std::string_view kConfigRoute = "/api/v1/config";
inline constexpr std::string_view kEjectRoute = "/api/v1/eject";
inline constexpr std::string_view kShutdownRoute = "/api/v1/shutdown";

inline constexpr std::string_view kVersionHeader = "Probing-Version";
inline constexpr int kVersionMismatch = 426;  // HTTP "Upgrade Required"

// "not_found", "permission", "usage", "timeout", "partial", "failed".
std::string_view CodeName(Code code);
// kFailed for a name nobody knows.
Code CodeFromName(std::string_view name);
int HttpStatus(Code code);

}  // namespace probing::wire
