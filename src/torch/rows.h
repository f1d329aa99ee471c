// TorchRows: what a TorchTracer knows, as rows of python.torch_trace and python.torch_steps.
// Made where it is used; with the GIL.
#pragma once

#include <cstdint>

#include "table/written_rows.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::PyObject;

class TorchRows {
 public:
  explicit TorchRows(TorchTracer& tracer) : tracer_(tracer) {}

  void WriteStep(std::int64_t now_ns, Phase phase);
  // All calls of a step, in the order in which they began: forward, then backward.
  void WriteCalls(SampledStep& step);
  void NoteOptimizer(PyObject* optimizer, std::int64_t begin_ns, std::int64_t end_ns);

 private:
  enum class Stage : std::uint8_t { kForward, kBackward, kStep };
  struct Row {
    const TorchCall& call;
    Stage stage;
    std::int64_t begin_ns, duration_ns;
  };
  // Texts that do not depend on the module.
  struct Words {
    explicit Words(record::TableHandle& trace);
    std::uint64_t generation;
    table::StringCell stages[3];
    table::StringCell cpu;
    table::StringCell phases[3];
  };
  void UseGpuTimes(SampledStep& step) const;
  void WriteCall(const SampledStep& step, std::int64_t seq, const Row& row, const Words& words);
  const ModuleName::Cells& CellsOf(const ModuleName& name, const Words& words) const;

  TorchTracer& tracer_;
};

}  // namespace probing::torch
