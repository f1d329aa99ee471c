// What the probe costs the job, part by part: probing.overhead.
//
// One for the process; any thread; no lock and no allocation but in EncodeOverhead().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace probing::record {

enum class Part : std::uint8_t {
  kEvaluations,  // code that somebody asked for, with the GIL
  kLive,         // tables made on request, with the GIL
  kHooks,        // putting hooks in place and looking at new imports, with the GIL
  kMemory,       // rows of python.memory, with the GIL
  kGc,           // inside of the job's garbage collections
  kRows,         // rows that the job's own code appends
  kTorch,        // tracing of PyTorch, step by step (python.torch_steps.overhead)
  kCollectives,  // reading torch's Flight Recorder when it is asked for: CPU time of a thread of ours, no GIL
};
inline constexpr std::size_t kParts = 8;

struct Cost {
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
};

class Overhead {
 public:
  static void Add(Part part, std::int64_t ns);
  static Cost Of(Part part);

  // Of kRows, which is too hot to be timed every time: one call in kRowsPerTiming is, and stands for
  // all of them. Returns whether this one is.
  static constexpr std::int64_t kRowsPerTiming = 256;
  static bool CountRow();
  static void AddTimedRow(std::int64_t ns);

  // A forked child starts at nothing.
  static void Reset();
};

// Adds the time of a scope.
class Measured {
 public:
  explicit Measured(Part part) : part_(part), begun_ns_(MonotonicNs()) {}
  ~Measured() { Overhead::Add(part_, MonotonicNs() - begun_ns_); }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  const Part part_;
  const std::int64_t begun_ns_;
};

// The rows of probing.overhead as table::Rows::Encode() writes them. `control` is what the caller knows
// of its own thread, `since_ns` (wall time) when the probe entered.
Result<std::string> EncodeOverhead(const std::vector<std::string>& columns, const Cost& control,
                                   std::int64_t since_ns);

}  // namespace probing::record
