#include "torch/rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "pyapi/ref.h"

namespace probing::torch {

using pyapi::PythonApi;
using pyapi::Ref;
using record::TableHandle;

namespace {

using table::PythonTorchTraceRow;
using table::StringCell;

constexpr const char* kPhases[] = {"train", "validate", "infer"};
constexpr const char* kSources[] = {"job", "optimizer", "counted"};

double Seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }
std::optional<double> Known(double number) {
  return std::isnan(number) ? std::nullopt : std::optional(number);
}

StringCell Intern(TableHandle& trace, PythonTorchTraceRow::Column column, std::string_view text) {
  return StringCell::Interned(trace.Intern(column, text));
}

}  // namespace

void TorchRows::WriteStep(std::int64_t now_ns, Phase phase) {
  const StepTimes& times = tracer_.times_;
  std::optional<double> data_wait;
  if (times.data_wait_ns >= 0) data_wait = Seconds(times.data_wait_ns);
  tracer_.steps_table_->Write(
      table::PythonTorchStepsRow{.timestamp = times.begin_wall_ns,
                                 .step = tracer_.step_,
                                 .duration = Seconds(now_ns - times.begin_ns),
                                 .data_wait = data_wait,
                                 .forward = Seconds(times.forward_ns),
                                 .backward = Seconds(times.backward_ns),
                                 .optimizer = Seconds(times.optimizer_ns),
                                 .overhead = Seconds(times.overhead_ns),
                                 .phase = kPhases[static_cast<std::size_t>(phase)],
                                 .step_source = kSources[static_cast<std::size_t>(tracer_.source_)],
                                 .backward_passes = times.backward_passes});
}

// Moments of the CPU become those of the GPU, where there are some.
void TorchRows::UseGpuTimes(SampledStep& step) const {
  const auto at = [&](PyObject* event, std::int64_t* ns) {
    if (event == nullptr) return;
    const double milliseconds = tracer_.gpu_.Milliseconds(step.base_event, event);
    if (milliseconds >= 0) *ns = step.base_ns + static_cast<std::int64_t>(milliseconds * 1e6);
  };
  for (TorchCall& call : step.calls) {
    if (call.gpu < 0) continue;
    const GpuCall& gpu = step.gpu_calls[static_cast<std::size_t>(call.gpu)];
    at(gpu.begin_event, &call.begin_ns);
    at(gpu.end_event, &call.end_ns);
  }
  for (std::size_t i = 0; i < step.moments.size(); ++i) at(step.moment_events[i], &step.moments[i].at_ns);
}

void TorchRows::WriteCalls(SampledStep& step) {
  if (step.base_event != nullptr) UseGpuTimes(step);
  const Words words(*tracer_.trace_table_);
  // A validation's rows have the number of the step that follows: their positions go on.
  if (std::exchange(tracer_.seq_step_, step.number) != step.number) tracer_.seq_ = 0;
  std::int64_t& seq = tracer_.seq_;
  std::vector<CallRange> ranges;
  ranges.reserve(step.calls.size());
  for (const TorchCall& call : step.calls) {
    ranges.push_back(call.range);
    if (call.end_ns == 0) continue;  // still under way when the step ended
    const Stage stage = call.optimizer ? Stage::kStep : Stage::kForward;
    WriteCall(step, seq++, {call, stage, call.begin_ns, call.end_ns - call.begin_ns}, words);
  }
  const auto spans = BackwardSpans(ranges, std::move(step.moments));
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].has_value()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return spans[a]->begin_ns < spans[b]->begin_ns; });
  for (const std::size_t i : order) {
    const Row row{step.calls[i], Stage::kBackward, spans[i]->begin_ns, spans[i]->duration_ns};
    WriteCall(step, seq++, row, words);
  }
}

TorchRows::Words::Words(TableHandle& trace)
    : generation(trace.generation()),
      stages{Intern(trace, PythonTorchTraceRow::kStage, "forward"),
             Intern(trace, PythonTorchTraceRow::kStage, "backward"),
             Intern(trace, PythonTorchTraceRow::kStage, "step")},
      cpu(Intern(trace, PythonTorchTraceRow::kDevice, "cpu")),
      phases{Intern(trace, PythonTorchTraceRow::kPhase, kPhases[0]),
             Intern(trace, PythonTorchTraceRow::kPhase, kPhases[1]),
             Intern(trace, PythonTorchTraceRow::kPhase, kPhases[2])} {}

const ModuleName::Cells& TorchRows::CellsOf(const ModuleName& name, const Words& words) const {
  if (name.cells.generation != words.generation) {
    TableHandle& trace = *tracer_.trace_table_;
    name.cells = {.generation = words.generation,
                  .path = Intern(trace, PythonTorchTraceRow::kModule, name.path),
                  .type = Intern(trace, PythonTorchTraceRow::kModuleType, name.type),
                  .forward = Intern(trace, PythonTorchTraceRow::kOperationName, name.forward),
                  .backward = Intern(trace, PythonTorchTraceRow::kOperationName, name.backward)};
  }
  return name.cells;
}

void TorchRows::WriteCall(const SampledStep& step, std::int64_t seq, const Row& row, const Words& words) {
  const GpuCall* gpu = row.call.gpu < 0 ? nullptr : &step.gpu_calls[static_cast<std::size_t>(row.call.gpu)];
  const std::string device = gpu == nullptr ? "" : "cuda:" + std::to_string(gpu->gpu);
  const bool backward = row.stage == Stage::kBackward;  // what was free then is not known
  const GpuMemory memory = backward || gpu == nullptr ? GpuMemory() : gpu->memory;
  const ModuleName::Cells& name = CellsOf(*row.call.name, words);
  tracer_.trace_table_->WriteInterned(
      words.generation,
      PythonTorchTraceRow{
          .timestamp = step.begin_wall_ns + row.begin_ns - step.begin_ns,
          .step = step.number,
          .seq = seq,
          .module = name.path,
          .module_type = name.type,
          .operation_name = backward ? name.backward : name.forward,
          .stage = words.stages[static_cast<std::size_t>(row.stage)],
          .allocated = Known(memory.allocated),
          .max_allocated = Known(memory.max_allocated),
          .cached = Known(memory.cached),
          .duration = Seconds(row.duration_ns),
          .duration_ms = static_cast<double>(row.duration_ns) / 1e6,
          .device = gpu == nullptr ? words.cpu : StringCell(device),
          .sampled = tracer_.rate_.rate() < 1,
          .phase = words.phases[static_cast<std::size_t>(row.call.beside ? Phase::kInfer : step.phase)]});
}

void TorchRows::NoteOptimizer(PyObject* optimizer, std::int64_t begin_ns, std::int64_t end_ns) {
  const PythonApi& api = *tracer_.api_;
  const Ref name = Ref::New(api, api.PyObject_GetAttrString(api.TypeOf(optimizer), "__name__"));
  const char* text = name ? api.PyUnicode_AsUTF8AndSize(name.get(), nullptr) : nullptr;
  const std::string type = text == nullptr ? "optimizer" : text;
  api.PyErr_Clear();
  ModuleName& known = tracer_.all_names_[{type, type}];
  if (known.path.empty()) known = {type, type, type + ".step", "", true};
  TorchCall call;
  call.name = &known;
  call.optimizer = true;
  call.begin_ns = begin_ns;
  call.end_ns = end_ns;
  call.range.last = static_cast<std::int32_t>(tracer_.sampled_.calls.size());
  tracer_.sampled_.calls.push_back(call);
}

}  // namespace probing::torch
