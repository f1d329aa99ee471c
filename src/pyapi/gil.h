// Taking the GIL, soon and politely.
//
// PyGILState_Ensure waits a switch interval (5 ms) when a thread runs Python code. So a pending
// call is queued as well: the main thread runs it at its next bytecode and all it does is to let
// the GIL go for a moment. Whichever way is faster wins; the evaluation itself always runs on a
// thread of ours, never on the job's stack.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Blocks until the GIL is ours, which may be never. Release() gives it back.
// REQUIRES: api.Usable(), and a thread that Python may know nothing about.
class Gil {
 public:
  explicit Gil(const PythonApi& api);
  ~Gil();
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const PythonApi& api_;
  int state_;
};

// True while a queued pending call of ours has not run yet: our code must not go away.
bool PendingCallOutstanding();

}  // namespace probing::pyapi
