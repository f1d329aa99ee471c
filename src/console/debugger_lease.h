// Whether somebody who may hold a thread of the job is still there.
//
// A debugger says so again and again (the probe's verb "debugger", which needs no GIL). A thread that is
// held looks here, and goes on by itself when nobody has spoken for a while. All of it is plain atomics:
// any thread, any time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace probing::console {

class DebuggerLease {
 public:
  static void Renew() { renewed_ns_.store(MonotonicNs()); }
  // Since the debugger spoke last; as long as one can think of when it never did.
  static double AgeSeconds() { return static_cast<double>(MonotonicNs() - renewed_ns_.load()) / 1e9; }

  // How often a thread has stopped so far: who waits for the next stop sees this number change.
  static void NoteStop() { stops_.fetch_add(1); }
  static std::int64_t stops() { return stops_.load(); }

 private:
  static inline std::atomic<std::int64_t> renewed_ns_{0};
  static inline std::atomic<std::int64_t> stops_{0};
};

}  // namespace probing::console
