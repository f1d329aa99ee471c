// What the place where this command runs allows: which kernel it is, what a container has taken away, in
// which namespaces it is. Rules on values, so that they can be tried on any machine; each names what to
// change.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inject/inject.h"

namespace probing::inject {

// As in a pod's description; the same for Docker and Podman.
inline constexpr char kPtraceLine[] =
    "give the container `securityContext: {capabilities: {add: [SYS_PTRACE]}}` "
    "(docker, podman: --cap-add=SYS_PTRACE)";

// As uname() says it. gVisor's kernel is a program with a past of its own.
Check JudgeKernel(std::string_view release, std::string_view version);

// `trace_error` and `read_error`: process/allowed_calls.h.
Check JudgeTracing(int trace_error, int read_error);

// The sets of /proc/PID/status (CapPrm). Another user's set does not matter to whom may trace anyone.
struct Capabilities {
  std::uint64_t permitted = 0;
  std::uint64_t effective = 0;

  static Capabilities Parse(std::string_view status_text);
  bool MayTraceAnyone() const;
  // Those of `theirs` that are not permitted here, as "SYS_ADMIN NET_RAW".
  std::string Lacking(const Capabilities& theirs) const;
};
Check JudgeCapabilities(pid_t pid, const Capabilities& theirs, const Capabilities& ours);

// The names of /proc/PID/ns/user; "" where it could not be read.
Check JudgeUserNamespace(pid_t pid, std::string_view theirs, std::string_view ours, bool may_trace_anyone);

// Folders that a probe may put its socket in; those that this one can.
struct SocketFolder {
  std::string path;  // as the process sees it
  int error = 0;     // errno of writing to it, 0: it can
};
Check JudgeSocketFolders(const std::string& whose, const std::vector<SocketFolder>& folders);

// The above about this machine, and about a process of `uid`. They touch nothing.
std::vector<Check> ExamineSandbox();
std::vector<Check> ExamineSandbox(pid_t pid, uid_t uid);

}  // namespace probing::inject
