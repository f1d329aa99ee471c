#include "unwind/mixed_reader.h"

#include <utility>

namespace probing::unwind {
namespace {

// It has to run a little before it is worth another look, and may be waiting for a CPU: doubled each
// time.
constexpr std::int64_t kFirstPauseUs = 100;
// It stands still: a chain that does not hang together now never will.
constexpr int kPythonAttempts = 6;

cpython::Thread ReadPython(cpython::Interpreter& interpreter, pid_t tid, std::size_t max_depth,
                           cpython::Changes changes) {
  auto snapshot =
      interpreter.Read({.max_depth = max_depth,
                        .attempts = kPythonAttempts,
                        .changes = changes,
                        .skip = [tid](const cpython::Thread& other) { return other.tid != tid; }});
  cpython::Thread found;
  found.tid = tid;
  if (!snapshot.ok()) return found;
  for (cpython::Thread& thread : snapshot->threads) {
    // With several interpreters a thread may have a state in each: it runs in the one with frames.
    if (thread.tid == tid && (found.frames.empty() || !thread.frames.empty())) found = std::move(thread);
  }
  return found;
}

}  // namespace

Result<MixedReading> ReadMixed(Unwinder& unwinder, cpython::Interpreter* interpreter, pid_t tid,
                               const MixedOptions& options) {
  using cpython::Changes;
  MixedReading reading;
  // Learns names and places beforehand, so that little is left to do while the thread is held. Nor
  // are other threads looked for then.
  if (interpreter != nullptr) (void)ReadPython(*interpreter, tid, options.max_depth, Changes::kAll);
  ReadOptions native;
  native.max_depth = options.max_depth;
  native.deadline_ms = options.deadline_ms;
  native.while_still = [&] {
    if (interpreter != nullptr)
      reading.python = ReadPython(*interpreter, tid, options.max_depth, Changes::kNew);
  };
  for (reading.attempts = 1;; ++reading.attempts) {
    ASSIGN_OR_RETURN(reading.native, unwinder.Read(tid, native));
    reading.stack = Merge(reading.native, reading.python);
    if (reading.stack.merged || reading.attempts >= options.attempts) return reading;
    SleepUs(kFirstPauseUs << (reading.attempts - 1));
  }
}

}  // namespace probing::unwind
