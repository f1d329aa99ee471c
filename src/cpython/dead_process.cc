#include "cpython/dead_process.h"

namespace probing::cpython {

Result<Snapshot> ReadDead(std::unique_ptr<const process::Memory> memory, const process::Maps& maps, pid_t pid,
                          const std::vector<pid_t>& tids, ReadOptions options) {
  options.attempts = 1;  // a second one would read the same
  ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::Attach(std::move(memory), maps, 0));
  interpreter.SetThreadsOfDead(pid, tids);
  return interpreter.Read(options);
}

}  // namespace probing::cpython
