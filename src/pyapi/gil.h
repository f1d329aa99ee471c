// Taking the GIL, soon and politely.
//
// PyGILState_Ensure waits a switch interval (5 ms) when a thread runs Python code. So a pending
// call is queued as well: the main thread runs it at its next bytecode and all it does is to let
// the GIL go for a moment. Whichever way is faster wins; the evaluation itself always runs on a
// thread of ours, never on the job's stack. While the main thread sleeps nothing is queued: the GIL is free,
// or a pending call would not free it.
#pragma once

#include <cstdint>

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Blocks until the GIL is ours, which may be never. False when Python is on its way out: then nothing
// of it may be touched. The destructor gives it back.
// REQUIRES: a thread of ours, which Python may know nothing about.
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

  explicit operator bool() const { return taken_; }

 private:
  const PythonApi& api_;
  bool taken_ = false;
  int state_ = 0;
};

// To be called when Python begins to end, by the thread that ends it, with the GIL: a thread that
// asks for the GIL while the interpreter is taken apart brings the process down. No thread of ours
// asks any more, and those that have asked are waited for, for a moment.
void NoMoreGil(const PythonApi& api);

// Our threads are not in the child.
void ForgetGilInForkedChild();

// True while a pending call of ours is queued or runs: our code must not go away. Whoever sees
// false and then takes the GIL patiently knows that the main thread has left our code.
bool PendingCallOutstanding();

}  // namespace probing::pyapi
