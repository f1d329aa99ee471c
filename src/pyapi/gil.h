// Taking the GIL, soon and politely.
//
// PyGILState_Ensure waits a switch interval (5 ms) when a thread runs Python code. So a pending
// call is queued as well: the main thread runs it at its next bytecode and all it does is to let
// the GIL go for a moment. Whichever way is faster wins; the evaluation itself always runs on a
// thread of ours, never on the job's stack.
#pragma once

#include <cstdint>

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Blocks until the GIL is ours, which may be never. Release() gives it back.
// REQUIRES: api.Usable(), and a thread that Python may know nothing about.
class Gil {
 public:
  enum class Manner : std::uint8_t {
    kSoon,     // by a pending call as well
    kPatient,  // by waiting alone: leaves nothing in the interpreter's queue
  };
  explicit Gil(const PythonApi& api, Manner manner = Manner::kSoon);
  ~Gil();
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const PythonApi& api_;
  int state_;
};

// True while a pending call of ours is queued or runs: our code must not go away. Whoever sees
// false and then takes the GIL patiently knows that the main thread has left our code.
bool PendingCallOutstanding();

}  // namespace probing::pyapi
