#include "unwind/mixed_reader.h"

#include <utility>

#include "unwind/join_interpreters.h"

namespace probing::unwind {
namespace {

// It has to run a little before it is worth another look, and may be waiting for a CPU: doubled each
// time.
constexpr std::int64_t kFirstPauseUs = 100;
// It stands still: a chain that does not hang together now never will.
constexpr int kPythonAttempts = 6;

cpython::Thread ReadPython(cpython::Interpreter& interpreter, pid_t tid, std::size_t max_depth) {
  auto snapshot = interpreter.Read({.max_depth = max_depth,
                                    .attempts = kPythonAttempts,
                                    .kernel_names = false,
                                    .changes = cpython::Changes::kNew,
                                    .only = tid});
  cpython::Thread found;
  found.tid = tid;
  if (!snapshot.ok()) return found;
  // With several interpreters a thread may have a state in each.
  std::vector<cpython::Thread> states;
  for (cpython::Thread& thread : snapshot->threads) {
    if (thread.tid != tid) continue;
    if (!thread.frames.empty() || thread.torn) {
      states.push_back(std::move(thread));
    } else if (found.frames.empty()) {
      found = std::move(thread);
    }
  }
  if (states.empty()) return found;
  if (states.size() == 1) return std::move(states.front());
  return JoinInterpreters(std::move(states));
}

}  // namespace

Result<MixedReading> ReadMixed(Unwinder& unwinder, cpython::Interpreter* interpreter, pid_t tid,
                               const MixedOptions& options) {
  MixedReading reading;
  // Learns names and places beforehand, so that little is left to do while the thread is held.
  if (interpreter != nullptr) (void)ReadPython(*interpreter, tid, options.max_depth);
  ReadOptions native;
  native.max_depth = options.max_depth;
  native.deadline_ms = options.deadline_ms;
  native.while_still = [&] {
    if (interpreter != nullptr) reading.python = ReadPython(*interpreter, tid, options.max_depth);
  };
  for (reading.attempts = 1;; ++reading.attempts) {
    ASSIGN_OR_RETURN(reading.native, unwinder.Read(tid, native));
    reading.stack = Merge(reading.native, reading.python);
    if (reading.stack.merged || reading.attempts >= options.attempts) return reading;
    // What is too deep does not become less deep, and each attempt takes long.
    if (reading.native.end == StackEnd::kTooDeep || reading.python.truncated) return reading;
    SleepUs(kFirstPauseUs << (reading.attempts - 1));
  }
}

}  // namespace probing::unwind
