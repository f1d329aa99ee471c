// LastStacks: where the threads of a target were when they were last seen, for crash.stacks.
//
// A process that has died has no memory to be read. So it is looked at now and then while it lives, from
// outside and without stopping it, at most so often that the looks take a thousandth of a core. Not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

#include "base/result.h"
#include "cpython/interpreter.h"
#include "ring/arena.h"

namespace probing::observe {

class LastStacks {
 public:
  explicit LastStacks(pid_t pid) : pid_(pid) {}

  // Does nothing while it is too early for the next look. A program may load Python late: it is
  // looked for again. What cannot be read stays as it was.
  void Look();

  // crash.stacks: a row for each frame, with the time of the look that saw it.
  Result<void> Write(ring::Arena& arena) const;

 private:
  struct Seen {
    std::int64_t at_ns = 0;  // wall time
    cpython::Thread thread;
  };

  pid_t pid_;
  std::optional<cpython::Interpreter> interpreter_;
  std::map<pid_t, Seen> threads_;
  std::int64_t next_look_ns_ = 0;  // on the monotonic clock
};

}  // namespace probing::observe
