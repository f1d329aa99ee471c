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
  bool unloads = false;       // the probe has left, and now the last that held its code back is gone
};

// Provided by lifecycle.cc for the thread:
enum class Unload : std::uint8_t { kYes, kNo };
// Ends the probe's public existence. Returns what to dlclose, if anything.
void* Leave(Unload unload);
// The thread that calls this is the one that serves from now on.
void NoteControlThread();
// What to dlclose, if anything, once all that UnloadWhenUnused() has waited for is gone.
void* UnloadUnused();
// The job still has functions of ours, or is in a call of one: the library goes when the last of them does.
void UnloadWhenUnused();
// To be removed when the process ends, or by RemoveSocket().
void RememberSocket(const std::string& path);
void RemoveSocket();
// Whether forked children get a probe of their own.
void FollowForks(bool follow);

}  // namespace probing::probe
