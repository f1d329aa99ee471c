// TorchRows: what a TorchTracer knows, as rows of python.torch_trace and python.torch_steps.
// Made where it is used; with the GIL.
#pragma once

#include <string_view>

#include "pyapi/torch_tracer.h"

namespace probing::pyapi {

class TorchRows {
 public:
  explicit TorchRows(TorchTracer& tracer) : tracer_(tracer) {}

  void WriteStep(std::int64_t now_ns);
  // All calls of a step, in the order in which they began: forward, then backward.
  void WriteCalls(SampledStep& step);
  void NoteOptimizer(PyObject* optimizer, std::int64_t begin_ns, std::int64_t end_ns);

 private:
  struct Row {
    const TorchCall& call;
    std::string_view operation, stage;
    std::int64_t begin_ns, duration_ns;
  };
  void UseGpuTimes(SampledStep& step) const;
  void WriteCall(const SampledStep& step, std::int64_t seq, const Row& row);

  TorchTracer& tracer_;
};

}  // namespace probing::pyapi
