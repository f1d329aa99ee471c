// What a user writes to name a target.
//
//   1234                 a process of this machine
//   host:port            whoever is served there (probing serve, PROBE_ADDR); [v6]:port too
//   host:port/1234       one of the processes there
//   unix:PATH[/1234]     the same by the path of a socket
//   rank:3               the process of this machine that does the work of rank 3
//   DIR, trace.json[.gz], x.incident: what was recorded (history, Flight Recorder's dumps, a trace, …)
//   job, job:NAME        all ranks of this machine, for commands that take several
//   train.py             the process of this machine that runs that script, when there is one
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/address.h"

namespace probing::cli {

// A probingd that is not the user's own.
struct Endpoint {
  std::optional<wire::Address> address;
  std::string socket_path;  // when there is no address

  std::string ToText() const { return address ? address->ToText() : "unix:" + socket_path; }
};

struct TargetName {
  std::optional<Endpoint> endpoint;  // nothing: this machine
  std::optional<pid_t> pid;          // nothing: all, or the only one
  std::optional<std::int64_t> rank;
  std::optional<std::string> job;  // "": the only one there is
  std::string script;              // "" for none
};

// Whether a word has the form of a target: a number, host:port, [v6]:port, unix:PATH, rank:N,
// clickhouse://… or the path of a directory or of a trace. So `probing 1234 inject` needs no -t. A word with
// a space or
// '=' never has.
bool LooksLikeTarget(std::string_view word);

// Whether a word is the path of a directory or of a trace: it begins with /, ./ or ../, is . or .., or ends
// with .json[.gz] or .incident.
bool LooksLikeDirectory(std::string_view word);

// The absolute path of a directory, or of a file, that exists.
Result<std::string> ParseDirectory(std::string_view word);

// kUsage for words that are no target and for kinds of targets this version does not serve.
Result<TargetName> ParseTarget(std::string_view word);

}  // namespace probing::cli
