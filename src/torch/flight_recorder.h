// Collectives from torch's own Flight Recorder, into python.collectives and python.collective_starts.
//
// torch remembers the last 2000 or so collectives of a process, whatever started them: DDP's C++ code,
// functional collectives, Python. Its dump function (c10d::dump_fr_trace, exported by libtorch) is called on
// a thread of our own, without the GIL: the Python function of the same name keeps the GIL for 30 to 50 ms.
// It is called when somebody asks for these tables and not otherwise, so that a job that nobody looks at pays
// nothing; a job waits for it only while torch copies its records (under its own mutex; how long was not
// measured).
//
// Found by its mangled name, which says the shape of what it returns: another torch has none of that name,
// and python.flight_recorder (with the GIL) and the wrappers of collectives.py are left. Never before the job
// has made a process group: the first call would make torch read its settings too early.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::torch {

class FlightReader {
 public:
  // Lifetime: `wake_fd` is an eventfd that outlives this.
  explicit FlightReader(int wake_fd) : wake_fd_(wake_fd) {}

  // Starts reading, on a thread that exists only meanwhile and makes `wake_fd` readable at its end. An error
  // says why there is nothing to read. Without effect while one is under way.
  Result<void> Start();

  // True, once, when a reading has ended.
  bool Collect();

  // Waits for a reading that is under way; it writes nothing after this. False when its thread is left
  // behind.
  bool Finish(std::int64_t timeout_ms);

 private:
  static void* Run(void* self);

  const int wake_fd_;
  pthread_t thread_{};
  bool running_ = false;
  std::atomic<bool> done_{false};
  std::mutex writing_;  // guards `over_`
  bool over_ = false;
};

// Whether the Flight Recorder of this process can be read; any thread.
bool HasFlightRecorder();

// collectives.py has written this one itself. Any thread; no lock.
void NoteOwnCollective(std::string_view group, std::int64_t seq);

// What was read belongs to the parent.
void ForgetCollectivesInForkedChild();

}  // namespace probing::torch
