#include "process/allowed_calls.h"

#include <sys/ptrace.h>
#include <sys/uio.h>

#include <cerrno>
#include <climits>

namespace probing::process {
namespace {

constexpr int kNoProcess = INT_MAX;  // above every pid_max

int ErrorOf(long result) { return result >= 0 || errno == ESRCH ? 0 : errno; }

}  // namespace

int TraceError() {
  errno = 0;
  return ErrorOf(ptrace(PTRACE_SEIZE, kNoProcess, nullptr, nullptr));
}

int ReadMemoryError() {
  char byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{&byte, 1};
  return ErrorOf(process_vm_readv(kNoProcess, &local, 1, &remote, 1, 0));
}

}  // namespace probing::process
