// The HTTP contract of probingd, shared by its server and its clients.
//
//   GET  ready                             {status, targets}: queries are answered
//   GET  openapi.json                      this, for programs
//   GET  health                            {status, version, pid}
//   GET  targets                           {targets: [{pid, user, state, python, how, version, job, …}]}
//   GET  processes                         {processes}: those of Python on this host, as `probing ps --json`
//   GET  status?target=PID                 {pid, …, probe: {…}}; without target: probingd's own
//   POST eval {target, code, timeout?, gil_timeout?, op?, session?, thread?, frame?, at?,
//        whole?, arguments?, confirmed?, ipython?}
//                                          {outcome, stdout, stderr, value?, traceback?, exception?, note?,
//                                          duration_us?, gil_wait_us?, gil?, gil_holder?: {tid, name, stack},
//                                          running?: {tid, for_ms, stack}}; op is eval (default), line (typed
//                                          at a prompt), complete, close, script, log or debug:
//                                          docs/guides/repl.md
//   POST interrupt {target, session}       {}; the session's evaluation ends, and is answered where it was
//                                          asked for
//   POST debugger {target}                 {stops}: a debugger is still there
//   GET  config?target=PID                 {settings: [{name, value, default, description}]}
//   POST config {target?, set: {name: value}}  as GET
//   POST eject {target}                    {note}
//   POST profile {target | targets: [{pid, rank?}], seconds?, hz?, native?, subprocesses?, reason?,
//   start_ns?,
//        seed?}                            {pid, period_ns, started_ns, samples_taken, ended, gone: [{pid,
//        why,
//                                          after_s?}], lost, marks, threads, frames, stacks, samples:
//                                          {start_ns, weight, thread, stack, on_cpu, has_gil, mark}}; a stack
//                                          lists frames outermost first, [0] is empty; thread, stack, frame
//                                          and mark numbers are positions in those lists; weight counts
//                                          periods; the reason is the mark. Several are sampled at the same
//                                          moments, from start_ns (wall time) on; those that began at the
//                                          same time with the same seed on other hosts, too
//   POST torch_profile {target, steps? | seconds?, shapes?, stacks?, patience?, from_ns?}
//                                          {profile, steps, from_ns, to_ns, ops, gpu, bytes, trace, ended_by,
//                                          problem}: torch's profiler was on; trace is where the file can be
//                                          read on that machine until the next one
//   POST gpu_memory {target, seconds?}     {snapshot, seconds, own, taken_ns, held_ms, blocks, bytes, file,
//                                          problem}: what torch's GPU allocator has, recorded for so long
//                                          before; own: the job itself records that history; file is where
//                                          the snapshot can be read on that machine until the next one
//   POST incident {target? | job?, locals?, max_bytes?}
//                                          the bytes of an incident file (docs/design/incident.md)
//   GET  samples?target=PID                {pid, running, period_ns, samples_taken, lost, folded: [{pid, tid,
//                                          thread_name, stack, classes, on_cpu, has_gil, weight}],
//                                          bursts: [{reason, running, period_ns, samples_taken, lost,
//                                          folded}]}
//   POST query {target?, sql, format?, width?}  the rows, in that format: rows (default: {columns: [{name,
//                                          type}], rows: [[…]]}), table, csv, json, jsonl, markdown, arrow,
//                                          parquet
//   GET  backtrace?target=PID&…            as `probing backtrace --json`; format=text as without. tid=TID,
//                                          all, native, lines, stop, locals, depth=N, task_tree, greenlets:
//                                          as its options; columns=N: names in texts are shortened to fit
//   GET  source?target=PID&file=F&line=N   {file, first_line, lines}: what is around a frame
//   POST flamegraph {target, seconds?, hz?, native?, subprocesses?, show?, threads?, lines?, format?, from?,
//                   to?}                   svg (default), html, heatmap, speedscope, collapsed, pprof,
//                                          chrome, gecko; show is active, all or gil. With from or to
//                                          (seconds since 1970, or below 0 before now) of what is sampled
//                                          all the time, instead of a new recording
//   GET  diagnose                          {findings, rules}: diagnosis.h
//   GET  store/ddl?…                       the statements that make our tables in a ClickHouse
//   GET  tables                            the rows of probing.tables; ?table=NAME those of probing.columns
//   GET  events?interval=S&target=PID&…    server-sent events: `targets` when they change; with sql=…,
//                                          `rows`; with queries={name: sql}, `results` of those that changed
//   POST events {target, name, ago?, duration?, record?}  {}; what the target did then becomes a row of
//                                          python.stalls; record takes 200 samples a second for so long
//   GET  repl?target=PID                   a WebSocket: {code, timeout?} or {interrupt} in, what eval
//                                          answers out
//   POST inject {target, timeout?}         as `probing inject --json` there
//   POST listen {address, close?}          {addresses, link, fingerprint?}; the link is good for one visit
//   GET  token                             {read, profile, eval}
//   GET  node?from=HOST:PORT               {instance, host, version, ranks, wall_ns, knows: [address]}: for
//                                          other hosts' probingd; `from` is where the one that asks answers
//   POST shutdown                          {}
//
// All under /api/v1/; GET /metrics and POST /mcp beside it. docs/reference/http.md has the rest. Every
// failure is {error: {code, message, hint}}, code being CodeName() of the error. A client sends its version
// as kVersionHeader; another version than the daemon's is answered with kVersionMismatch before anything is
// done, and the client replaces the daemon. What somebody should know beside an answer (a ring that cannot be
// read, a view that does not work) comes as kWarningHeader, a JSON string in ASCII; there may be several. An
// answer that other hosts took part in has kReceiptHeader: {expected, answered, failed: [{node, reason}],
// dropped, bytes, epoch}, this host being one of those expected; when the hosts changed meanwhile also
// {epoch_before, restarted: [node]}, and of an EXPLAIN {plan: [{table, node, rows, bytes}]}. What other hosts
// are sent has kInstanceHeader: the number that this probingd drew when it started.
#pragma once

#include <string_view>

#include "base/result.h"

namespace probing::wire {

inline constexpr std::string_view kHealthRoute = "/api/v1/health";
inline constexpr std::string_view kTargetsRoute = "/api/v1/targets";
inline constexpr std::string_view kStatusRoute = "/api/v1/status";
inline constexpr std::string_view kEvalRoute = "/api/v1/eval";
inline constexpr std::string_view kInterruptRoute = "/api/v1/interrupt";
inline constexpr std::string_view kDebuggerRoute = "/api/v1/debugger";
inline constexpr std::string_view kConfigRoute = "/api/v1/config";
inline constexpr std::string_view kInjectRoute = "/api/v1/inject";
inline constexpr std::string_view kEjectRoute = "/api/v1/eject";
inline constexpr std::string_view kProfileRoute = "/api/v1/profile";
inline constexpr std::string_view kTorchProfileRoute = "/api/v1/torch_profile";
inline constexpr std::string_view kGpuMemoryRoute = "/api/v1/gpu_memory";
inline constexpr std::string_view kSamplesRoute = "/api/v1/samples";
inline constexpr std::string_view kQueryRoute = "/api/v1/query";
inline constexpr std::string_view kBacktraceRoute = "/api/v1/backtrace";
inline constexpr std::string_view kSourceRoute = "/api/v1/source";
inline constexpr std::string_view kFlamegraphRoute = "/api/v1/flamegraph";
inline constexpr std::string_view kEventsRoute = "/api/v1/events";
inline constexpr std::string_view kReplRoute = "/api/v1/repl";
inline constexpr std::string_view kReadyRoute = "/api/v1/ready";
inline constexpr std::string_view kTablesRoute = "/api/v1/tables";
inline constexpr std::string_view kOpenApiRoute = "/api/v1/openapi.json";
inline constexpr std::string_view kListenRoute = "/api/v1/listen";
inline constexpr std::string_view kTokenRoute = "/api/v1/token";
inline constexpr std::string_view kMetricsRoute = "/metrics";
inline constexpr std::string_view kMcpRoute = "/mcp";
inline constexpr std::string_view kNodeRoute = "/api/v1/node";
inline constexpr std::string_view kShutdownRoute = "/api/v1/shutdown";

inline constexpr std::string_view kVersionHeader = "Probing-Version";
inline constexpr std::string_view kWarningHeader = "Probing-Warning";
inline constexpr std::string_view kReceiptHeader = "Probing-Receipt";
inline constexpr std::string_view kInstanceHeader = "Probing-Instance";
inline constexpr int kVersionMismatch = 426;  // HTTP "Upgrade Required"

// "not_found", "permission", "usage", "timeout", "partial", "failed".
std::string_view CodeName(Code code);
// kFailed for a name nobody knows.
Code CodeFromName(std::string_view name);
int HttpStatus(Code code);

}  // namespace probing::wire
