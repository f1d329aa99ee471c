// The lists of interpreters and threads that CPython keeps, and who has the GIL.
#pragma once

#include <optional>
#include <vector>

#include "cpython/locate.h"

namespace probing::cpython {

struct ThreadState {
  process::RemoteAddress address;
  std::uint64_t pthread = 0;    // pthread_t: the address of the C library's record of the thread
  std::uint64_t native_id = 0;  // in the target's own pid namespace; 0 before Python 3.11

  bool operator==(const ThreadState&) const = default;
};

struct InterpreterState {
  process::RemoteAddress address;
  std::int64_t id = 0;
  std::vector<ThreadState> threads;
};

// Newest first, as CPython keeps them. The lists may change while they are read: such a reading
// is noticed and done again. Fails when there is no interpreter (yet, or any more).
Result<std::vector<InterpreterState>> ReadStates(const process::Memory& memory, const Location& location);

// How thoroughly to look for changes. kNew: threads are put at the head of their list, so a few
// pointers tell whether one came. kAll: also whether one went, at a piece of memory per thread.
enum class Changes : std::uint8_t { kNew, kAll };

// Whether the lists are still what they were. One system call, where ReadStates() needs one for each
// thread. False also when nothing can be read any more.
bool AreStill(const process::Memory& memory, const Location& location,
              const std::vector<InterpreterState>& states, Changes changes);

// Whether this interpreter is collecting garbage; before 3.9, whether any is. Nothing when it does not say.
std::optional<bool> IsCollecting(const process::Memory& memory, const Location& location,
                                 const InterpreterState& interpreter);

// Address of the thread state that holds the GIL of this interpreter; nothing when nobody does,
// when it has none, or when what is found there is none of its threads.
std::optional<process::RemoteAddress> FindGilHolder(const process::Memory& memory, const Location& location,
                                                    const InterpreterState& interpreter);

}  // namespace probing::cpython
