#include "torch/tracer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/clock.h"
#include "record/events.h"
#include "record/overhead.h"
#include "torch/rows.h"

namespace probing::torch {

using pyapi::PythonApi;
using pyapi::Ref;

namespace {

constexpr std::size_t kMostPending = 4;

TorchTracer* the_tracer = nullptr;

// "3.14"; std::to_string would ask for the job's locale.
std::string Rounded(double number) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::general, 3);
  return {text.data(), end.ptr};
}

}  // namespace

TorchTracer& TheTorchTracer() {
  if (the_tracer == nullptr) the_tracer = new TorchTracer;
  return *the_tracer;
}

void ForgetTorchTracer() { delete std::exchange(the_tracer, nullptr); }

bool TorchTracer::Start(const PythonApi& api, const Options& options, PyObject* const* objects) {
  Stop();
  api_ = &api;
  auto trace = record::Recorder::FindTable("python.torch_trace", {});
  auto steps = record::Recorder::FindTable("python.torch_steps", {});
  if (!trace.ok() || !steps.ok()) return false;
  trace_table_ = *trace;
  steps_table_ = *steps;
  options_ = options;
  PyObject** const own[kObjects] = {
      &objects_.name_modules,   &objects_.on_sampled, &objects_.on_step,    &objects_.first_step,
      &objects_.grad_enabled,   &objects_.tensor,     &objects_.parameter,  &objects_.new_event,
      &objects_.capturing,      &objects_.gpu_memory, &objects_.on_output,  &objects_.on_gradients,
      &objects_.carrier,        &objects_.is_trained, &objects_.is_updated, &objects_.generates,
      &objects_.note_optimizer,
  };
  for (std::size_t i = 0; i < kObjects; ++i) {
    *own[i] = objects[i] == api._Py_NoneStruct ? nullptr : pyapi::NewRef(api, objects[i]);
  }
  // Nobody who looks at all objects is to find a tensor of ours.
  if (objects_.carrier != nullptr) api.PyObject_GC_UnTrack(objects_.carrier);
  nodes_.Use(api, objects_.carrier, &generation_);
  gpu_.Use(api, objects_.new_event, objects_.capturing);
  turns_ = {};
  rate_ = RateKeeper(options.modules ? options.rate : 0, options.max_overhead, options.may_thin);
  // What is known of the job stays: its step's number, and what ends one.
  complete_ = job_said_ = false;
  sample_next_ = true;
  numbered_ = nullptr;
  trainer_is_sure_ = false;
  outermost_.clear();
  trained_.clear();
  optimizers_.clear();
  has_trained_ = has_gradients_ = evaluates_ = is_apart_ = false;
  backward_depth_ = 0;
  updated_in_backward_ = is_wrapped_ = false;
  optimizer_begin_ns_ = closure_begin_ns_ = 0;
  fetch_begin_ns_ = fetched_ns_ = gap_begin_ns_ = beside_begin_ns_ = 0;
  times_ = {};
  clock_ = {};
  look_left_ns_ = 0;
  ++generation_;
  running_ = true;
  return true;
}

void TorchTracer::Stop() {
  if (!running_) return;
  running_ = sampling_ = looking_ = false;
  ++generation_;
  // What is dropped may run code of the job, which must find us finished: first everything is taken.
  std::vector<Ref> gone;
  nodes_.Clear(&gone);
  last_output_ = {};
  for (PyObject* object :
       {objects_.name_modules, objects_.on_sampled, objects_.on_step, objects_.first_step,
        objects_.grad_enabled, objects_.tensor, objects_.parameter, objects_.new_event, objects_.capturing,
        objects_.gpu_memory, objects_.on_output, objects_.on_gradients, objects_.carrier, objects_.is_trained,
        objects_.is_updated, objects_.generates, objects_.note_optimizer}) {
    if (object != nullptr) gone.push_back(Ref::New(*api_, object));
  }
  objects_ = {};
  Release(sampled_);
  for (SampledStep& step : pending_) Release(step);
  pending_.clear();
  gpu_.Clear();
  names_.clear();
  expected_.clear();
  all_names_.clear();
}

Ref TorchTracer::Ask(PyObject* callable, PyObject* first, PyObject* second) const {
  const Ref called = Ref::Borrowed(*api_, callable);  // the tracing may end meanwhile
  if (!called) return {};
  Ref answer = Ref::New(*api_, api_->PyObject_CallFunctionObjArgs(callable, first, second, nullptr));
  if (!answer) api_->PyErr_Clear();
  return answer;
}

bool TorchTracer::GradientsAreOff() const {
  return Ask(objects_.grad_enabled).get() == api_->_Py_FalseStruct;
}

bool TorchTracer::AskBool(PyObject* callable, PyObject* first) const {
  return Ask(callable, first).get() == api_->_Py_TrueStruct;
}

void TorchTracer::Say(const std::string& message) {
  if (running_) record::WriteEvent("probing.torch", message, step_);
}

void TorchTracer::AddName(PyObject* module, const std::string& path, const std::string& type, bool wanted) {
  constexpr std::size_t kMostNames = 1'000'000;
  if (!running_ || all_names_.size() >= kMostNames) return;
  ModuleName& name = all_names_[{path, type}];
  if (name.path.empty()) name = {path, type, path + ".forward", path + ".backward", wanted};
  names_[module] = &name;
  expected_.clear();  // it may have had another name
}

// ── where a step begins and ends ──

void TorchTracer::EndStep(std::int64_t now_ns, Phase phase, std::optional<std::int64_t> next) {
  const std::int64_t called_ns = NowNs();
  std::int64_t bounded_ns = 0;
  const bool tells = objects_.on_step != nullptr && (phase == Phase::kTrain || !trains_);
  if (const Ref number = Ref::New(*api_, tells ? api_->PyLong_FromLongLong(step_) : nullptr)) {
    if (const Ref done = Ask(objects_.on_step, number.get())) {
      int overflow = 0;
      if (done.get() != api_->_Py_NoneStruct)
        bounded_ns = api_->PyLong_AsLongLongAndOverflow(done.get(), &overflow);
      api_->PyErr_Clear();
    }
  }
  if (running_) Boundary(now_ns, phase, next, called_ns, bounded_ns);
}

void TorchTracer::Boundary(std::int64_t now_ns, Phase phase, std::optional<std::int64_t> next,
                           std::int64_t called_ns, std::int64_t bounded_ns) {
  // A batch that was fetched behind the end is the next step's.
  const std::int64_t fetched_ns = fetch_begin_ns_ >= now_ns ? std::exchange(fetched_ns_, 0) : 0;
  if (fetched_ns > 0) times_.data_wait_ns -= fetched_ns;
  if (phase == Phase::kTrain && !std::exchange(job_said_, false) && source_ == StepSource::kJob) {
    source_ = StepSource::kCounted;  // it does not say it any more
    numbered_ = nullptr;
  }
  if (complete_) {
    wrote_training_ = wrote_training_ || phase == Phase::kTrain;
    TorchRows(*this).WriteStep(now_ns, phase);
    if (rate_.StepTook(now_ns - times_.begin_ns, times_.overhead_ns - times_.bounded_ns)) {
      Say("tracing took " + Rounded(rate_.share() * 100) +
          " % of the time, more than probing.torch.max_overhead: rate=" + Rounded(rate_.rate()) +
          " from now on");
    }
  }
  if (sampling_) {
    turns_.StepTook(now_ns - sampled_.begin_ns);
    last_calls_ = sampled_.calls.size();
    if (complete_) {
      sampled_.phase = phase;
      sampled_.number = step_;  // the job may have said it meanwhile
      pending_.push_back(std::exchange(sampled_, {}));
      if (pending_.back().base_event != nullptr) pending_.back().last_event = gpu_.Record();
    } else {
      Release(sampled_);
    }
    nodes_.StepEnded();
    last_output_ = {};
  }
  // Looking at all outputs takes a tenth of the time at most: where that is not enough, not in every step.
  constexpr std::int64_t kLookShare = 10, kMostLeftNs = 1'000'000'000;
  look_left_ns_ += (now_ns - times_.begin_ns) / kLookShare - times_.looked_ns;
  look_left_ns_ = std::clamp(look_left_ns_, -kMostLeftNs, kMostLeftNs);
  looking_ = options_.looks && options_.modules && look_left_ns_ >= 0;
  sampling_ = false;
  ++generation_;
  clock_.Anchor();
  record::Overhead::Add(record::Part::kTorch, times_.overhead_ns);
  if (phase == Phase::kTrain || !trains_) step_ = next.value_or(step_ + 1);
  complete_ = true;
  outermost_.clear();
  backward_depth_ = 0;
  has_trained_ = has_gradients_ = false;
  times_ = {.begin_ns = now_ns, .begin_wall_ns = WallNs() - (NowNs() - now_ns), .bounded_ns = bounded_ns};
  if (fetched_ns > 0) times_.data_wait_ns = fetched_ns;
  if (fetch_begin_ns_ < now_ns) fetch_begin_ns_ = 0;
  gap_begin_ns_ = now_ns;
  WritePending();
  const bool take = IsToBeTraced(phase);
  sample_next_ = false;
  if (take) BeginSampledStep(now_ns);
  times_.overhead_ns = NowNs() - called_ns;
}

// Whether the step that begins is. An evaluation has many parts with the number of one step.
bool TorchTracer::IsToBeTraced(Phase last) {
  if (!options_.modules) return false;
  const bool evaluates = trains_ && last != Phase::kTrain && evaluates_;
  const std::int64_t number = evaluates ? ++evaluations_ : step_;
  return sample_next_ || IsSampledStep(number, rate_.rate(), rate_.thin());
}

void TorchTracer::BeginSampledStep(std::int64_t now_ns) {
  const std::uint64_t generation = generation_;
  const bool gpu = AskBool(objects_.on_sampled);
  if (generation_ != generation) return;
  sampled_.calls.reserve(last_calls_);
  sampled_.number = step_;
  sampled_.begin_ns = now_ns;
  sampled_.begin_wall_ns = times_.begin_wall_ns;
  if (gpu) {
    sampled_.base_event = gpu_.Record();
    sampled_.base_ns = NowNs();
  }
  if (generation_ != generation) return;
  sampling_ = true;
  calls_.Resume(*api_);
}

// Writes steps that are over, on the GPU as well.
void TorchTracer::WritePending() {
  while (!pending_.empty()) {
    SampledStep& step = pending_.front();
    const bool over = step.last_event == nullptr || gpu_.Happened(step.last_event);
    if (!over && pending_.size() <= kMostPending) return;
    // One whose end does not come has what the CPU knows of it, and that would be wrong: it is left out.
    if (over) TorchRows(*this).WriteCalls(step);
    Release(step);
    pending_.pop_front();
  }
}

void TorchTracer::Release(SampledStep& step) {
  for (const GpuCall& call : step.gpu_calls) {
    gpu_.GiveBack(call.begin_event);
    gpu_.GiveBack(call.end_event);
  }
  for (PyObject* event : step.moment_events) gpu_.GiveBack(event);
  gpu_.GiveBack(step.base_event);
  gpu_.GiveBack(step.last_event);
  step = {};
}

}  // namespace probing::torch
