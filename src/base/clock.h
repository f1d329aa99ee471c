// Time. Durations are measured on the monotonic clock, rows are stamped with wall time.
#pragma once

#include <time.h>

#include <cstdint>

namespace probing {

inline std::int64_t ReadClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

inline std::int64_t MonotonicNs() { return ReadClockNs(CLOCK_MONOTONIC); }
inline std::int64_t WallNs() { return ReadClockNs(CLOCK_REALTIME); }

// A point in time after which one should give up.
class Deadline {
 public:
  static Deadline AfterNs(std::int64_t ns) { return Deadline(MonotonicNs() + ns); }
  static Deadline AfterMs(std::int64_t ms) { return AfterNs(ms * 1'000'000); }

  bool passed() const { return MonotonicNs() >= at_ns_; }
  // Never negative, so that it can be given to poll(2).
  std::int64_t left_ns() const {
    const std::int64_t left = at_ns_ - MonotonicNs();
    return left > 0 ? left : 0;
  }
  int left_ms() const { return static_cast<int>((left_ns() + 999'999) / 1'000'000); }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

// Sleeps through signals; never used inside a target's own threads.
inline void SleepUs(std::int64_t us) {
  timespec duration{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000) * 1000};
  while (nanosleep(&duration, &duration) != 0) {
  }
}

}  // namespace probing
