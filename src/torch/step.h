// What is known of one training step.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pyapi/python_api.h"
#include "table/typed_cell.h"
#include "torch/backward.h"

namespace probing::torch {

using pyapi::PyObject;

struct ModuleName {
  std::string path, type;
  std::string forward, backward;  // names of its operations
  bool wanted = true;             // by modules=…

  // The four as rows have them (TableHandle::Intern). Looking them up for each row of a step took a third of
  // all that tracing it takes.
  struct Cells {
    std::uint64_t generation = 0;  // of the table
    table::StringCell path, type, forward, backward;
  };
  mutable Cells cells{};
};

// What the job did meanwhile. Only training steps are counted where a job trains.
enum class Phase : std::uint8_t { kTrain, kValidate, kInfer };
// What the number of a step comes from: the job itself, an optimizer's state, or counting.
enum class StepSource : std::uint8_t { kJob, kOptimizer, kCounted };

struct GpuMemory {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double allocated = kUnknown;
  double max_allocated = kUnknown;
  double cached = kUnknown;
};

// What is known of a call on a GPU.
struct GpuCall {
  std::int32_t gpu = -1;            // its number
  PyObject* begin_event = nullptr;  // references of ours
  PyObject* end_event = nullptr;
  GpuMemory memory;
};

// One call of a module, or of an optimizer. Small, since thousands are noted in a step.
struct TorchCall {
  const ModuleName* name = nullptr;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  CallRange range;
  std::int32_t outer = -1;  // the call it was made in
  std::int32_t gpu = -1;    // in SampledStep::gpu_calls; −1: on the CPU
  bool optimizer = false;
  bool beside = false;  // on a thread that does not train, without gradients
};

// A step that is traced in full.
struct SampledStep {
  std::int64_t number = 0;
  Phase phase = Phase::kTrain;
  std::int64_t begin_ns = 0;
  std::int64_t begin_wall_ns = 0;
  std::vector<TorchCall> calls;
  std::vector<GpuCall> gpu_calls;
  std::vector<BackwardMoment> moments;
  std::vector<PyObject*> moment_events;  // empty, or one for each moment (null on the CPU)
  PyObject* base_event = nullptr;        // the others' times are counted from this one
  std::int64_t base_ns = 0;
  PyObject* last_event = nullptr;  // when this one is over, all are
};

// Where the time of every step goes.
struct StepTimes {
  std::int64_t begin_ns = 0;
  std::int64_t begin_wall_ns = 0;
  std::int64_t data_wait_ns = -1;  // −1: nobody waited for data
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t optimizer_ns = 0;
  std::int64_t overhead_ns = 0;
  std::int64_t bounded_ns = 0;  // of the overhead, what has a bound of its own
  std::int64_t looked_ns = 0;   // at outputs
  std::int64_t backward_passes = 0;
};

}  // namespace probing::torch
