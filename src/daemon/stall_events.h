// StallEvents: follows what a target records by itself, and picks what took too long or was asked for.
//
// Steps of python.torch_steps (and of probing.step() without torch) that take much longer than the running
// median, spans over the limit that they were given, events that ask for it, uncaught exceptions and metrics
// that the settings name. Reads the rings; nothing in the target waits for it. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/scoped_fd.h"
#include "daemon/late_ranks.h"
#include "observe/stalls/stall.h"
#include "ring/reader.h"

namespace probing::daemon {

class StallEvents {
 public:
  struct Limits {
    double step_factor = 3;
    std::int64_t limit_ns = 50'000'000;  // that a step takes longer than usual
    std::string exceptions;              // as the settings have them
    std::string metrics;
  };
  struct Event {
    observe::Stall stall;       // without stacks
    std::int64_t usual_ns = 0;  // 0: there is no usual duration
  };

  // Nothing that was over before `began_ns` (wall time) is given; it tells what is usual.
  explicit StallEvents(std::int64_t began_ns) : began_ns_(began_ns) {}

  // What has come since the last call.
  std::vector<Event> Read(std::span<const std::shared_ptr<const ScopedFd>> rings, const Limits& limits);
  // The collectives among it, whatever brought them into the ring. Whose they are is not filled in.
  std::vector<LateRanks::Arrival> TakeArrivals() { return std::exchange(arrivals_, {}); }

 private:
  struct Ring {
    std::shared_ptr<const ScopedFd> fd;  // keeps the number its own
    ring::Reader reader;
    std::map<std::string, ring::Cursor> cursors;
    std::map<std::string, std::uint64_t> written;  // when it was read last
  };
  struct Found {
    std::int64_t end_ns = 0;  // wall time
    Event event;
  };

  void ReadTable(Ring& ring, const ring::TableInfo& table, const Limits& limits, std::vector<Found>& found);
  void AddArrivals(const ring::Batch& batch);
  void AddStep(std::int64_t begin_ns, double seconds, std::int64_t step, const Limits& limits,
               std::vector<Found>& found);

  std::map<int, Ring> rings_;  // by descriptor
  std::deque<double> steps_;   // durations of the last ones, in seconds
  std::vector<LateRanks::Arrival> arrivals_;
  std::int64_t began_ns_;
};

}  // namespace probing::daemon
