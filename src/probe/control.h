// The probe's one thread: a socket, its clients, and the evaluation they asked for.
#pragma once

#include <cstdint>
#include <string>

namespace probing::probe {

class Control;

struct ControlOptions {
  // A forked child that execs soon should not leave a socket file behind.
  enum class Delay : std::uint8_t { kNone, kAfterFork };
  Delay delay = Delay::kNone;
  Control* paused = nullptr;  // to be served on, by a new thread (fork_pause.h)
};

// Provided by lifecycle.cc for the thread:
enum class Unload : std::uint8_t { kYes, kNo };
// Ends the probe's public existence. Returns what to dlclose, if anything.
void* Leave(Unload unload);
// To be removed when the process ends.
void RememberSocket(const std::string& path);
// Whether forked children get a probe of their own.
void FollowForks(bool follow);

}  // namespace probing::probe
