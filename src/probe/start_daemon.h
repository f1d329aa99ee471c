// Starts probingd when the target was started with an address to serve (PROBE_ADDR and its like), or a store
// to write to, and none runs yet. The only moment at which anything of ours starts a process from inside a
// job.
#pragma once

#include <cstdint>
#include <string>

namespace probing::probe {

// `library_path` is where this library was loaded from: probingd is beside it. Does nothing when no
// address was asked for, when a probingd runs already, or when there is none to start.
// kImpossible: an address was asked for, and nothing of ours will serve it.
//
// The job notices nothing: no handler of pthread_atfork runs, no memory is copied, no SIGCHLD comes, and
// its wait(2) never sees a child of ours.
enum class Serving : std::uint8_t { kNotAsked, kExpected, kImpossible };
Serving StartDaemonIfAsked(const std::string& library_path);

}  // namespace probing::probe
