#include "pyapi/torch_tracer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "pyapi/events.h"
#include "pyapi/overhead.h"
#include "pyapi/torch_rows.h"

namespace probing::pyapi {
namespace {

constexpr std::size_t kMostOutermost = 32;
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
  auto trace = Recorder::FindTable("python.torch_trace", {});
  auto steps = Recorder::FindTable("python.torch_steps", {});
  if (!trace.ok() || !steps.ok()) return false;
  trace_table_ = *trace;
  steps_table_ = *steps;
  options_ = options;
  PyObject** const own[kObjects] = {
      &objects_.name_modules, &objects_.on_sampled, &objects_.on_step,   &objects_.first_step,
      &objects_.grad_enabled, &objects_.tensor,     &objects_.parameter, &objects_.new_event,
      &objects_.capturing,    &objects_.gpu_memory, &objects_.on_output, &objects_.on_gradients,
      &objects_.carrier,
  };
  for (std::size_t i = 0; i < kObjects; ++i) {
    *own[i] = objects[i] == api._Py_NoneStruct ? nullptr : objects[i];
    if (*own[i] != nullptr) api.Py_IncRef(*own[i]);
  }
  // Nobody who looks at all objects is to find a tensor of ours.
  if (objects_.carrier != nullptr) api.PyObject_GC_UnTrack(objects_.carrier);
  nodes_.Use(api, objects_.carrier, &generation_);
  gpu_.Use(api, objects_.new_event, objects_.capturing);
  turns_ = {};
  rate_ = RateKeeper(options.modules ? options.rate : 0, options.max_overhead, options.may_thin);
  step_ = 0;
  complete_ = false;
  sample_next_ = true;
  explicit_steps_ = false;
  optimizer_ = nullptr;
  others_.clear();
  trainer_ = nullptr;
  outermost_.clear();
  backward_depth_ = 0;
  optimizer_begin_ns_ = 0;
  times_ = {};
  clock_ = {};
  ++generation_;
  running_ = true;
  return true;
}

void TorchTracer::Stop() {
  if (!running_) return;
  running_ = sampling_ = false;
  ++generation_;
  // What is dropped may run code of the job, which must find us finished: first everything is taken.
  std::vector<PyObject*> gone;
  nodes_.Clear(&gone);
  last_output_ = {};
  for (PyObject* object :
       {objects_.name_modules, objects_.on_sampled, objects_.on_step, objects_.first_step,
        objects_.grad_enabled, objects_.tensor, objects_.parameter, objects_.new_event, objects_.capturing,
        objects_.gpu_memory, objects_.on_output, objects_.on_gradients, objects_.carrier}) {
    if (object != nullptr) gone.push_back(object);
  }
  objects_ = {};
  Release(sampled_);
  for (SampledStep& step : pending_) Release(step);
  pending_.clear();
  gpu_.Clear();
  names_.clear();
  expected_.clear();
  all_names_.clear();
  for (PyObject* object : gone) api_->Py_DecRef(object);
}

PyObject* TorchTracer::Ask(PyObject* callable, PyObject* first, PyObject* second) const {
  if (callable == nullptr) return nullptr;
  api_->Py_IncRef(callable);  // the tracing may end meanwhile
  PyObject* answer = api_->PyObject_CallFunctionObjArgs(callable, first, second, nullptr);
  if (answer == nullptr) api_->PyErr_Clear();
  api_->Py_DecRef(callable);
  return answer;
}

bool TorchTracer::GradientsAreOff() const {
  PyObject* answer = Ask(objects_.grad_enabled);
  if (answer != nullptr) api_->Py_DecRef(answer);
  return answer == api_->_Py_FalseStruct;
}

bool TorchTracer::AskBool(PyObject* callable) const {
  PyObject* answer = Ask(callable);
  if (answer != nullptr) api_->Py_DecRef(answer);  // True and False stay
  return answer == api_->_Py_TrueStruct;
}

void TorchTracer::Say(const std::string& message) {
  if (running_) WriteEvent("probing.torch", message, step_);
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

void TorchTracer::EndStep(std::int64_t now_ns, std::optional<std::int64_t> next) {
  std::int64_t bounded_ns = 0;
  if (PyObject* number = objects_.on_step == nullptr ? nullptr : api_->PyLong_FromLongLong(step_)) {
    if (PyObject* done = Ask(objects_.on_step, number)) {
      int overflow = 0;
      if (done != api_->_Py_NoneStruct) bounded_ns = api_->PyLong_AsLongLongAndOverflow(done, &overflow);
      api_->PyErr_Clear();
      api_->Py_DecRef(done);
    }
    api_->Py_DecRef(number);
  }
  if (running_) Boundary(now_ns, next, bounded_ns);
}

void TorchTracer::Boundary(std::int64_t now_ns, std::optional<std::int64_t> next, std::int64_t bounded_ns) {
  if (complete_) {
    TorchRows(*this).WriteStep(now_ns);
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
      pending_.push_back(std::exchange(sampled_, {}));
      if (pending_.back().base_event != nullptr) pending_.back().last_event = gpu_.Record();
    } else {
      Release(sampled_);
    }
    nodes_.StepEnded();
    last_output_ = {};
  }
  sampling_ = false;
  ++generation_;
  clock_.Anchor();
  Overhead::Add(Part::kTorch, times_.overhead_ns);
  step_ = next.value_or(step_ + 1);
  complete_ = true;
  outermost_.clear();
  backward_depth_ = 0;
  times_ = {.begin_ns = now_ns, .begin_wall_ns = WallNs(), .bounded_ns = bounded_ns};
  WritePending();
  const bool take = options_.modules && (sample_next_ || IsSampledStep(step_, rate_.rate(), rate_.thin()));
  sample_next_ = false;
  if (take) BeginSampledStep(now_ns);
  times_.overhead_ns = NowNs() - now_ns;
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

// ── what the job does ──

void TorchTracer::OutermostBegins(TracedThread& thread, PyObject* module, std::int64_t now_ns) {
  thread.root = module;
  if (trainer_ == nullptr) trainer_ = &thread;
  if (&thread != trainer_ || explicit_steps_ || backward_depth_ > 0) return;
  // Without an optimizer a step is over when the same model is called again; with one, only where
  // gradients are off: in a validation.
  const bool again = std::find(outermost_.begin(), outermost_.end(), module) != outermost_.end();
  const bool over = again && (optimizer_ == nullptr || GradientsAreOff());
  if (over) EndStep(now_ns, {});
  if ((over || !again) && outermost_.size() < kMostOutermost) outermost_.push_back(module);
}

void TorchTracer::OutermostEnded(const TracedThread& thread, std::int64_t begin_ns) {
  if (&thread == trainer_ && backward_depth_ == 0) times_.forward_ns += NowNs() - begin_ns;
}

void TorchTracer::LookAtOutput(PyObject* module, PyObject* result) {
  const std::int64_t begin_ns = NowNs();
  if (PyObject* done = Ask(objects_.on_output, module, result)) api_->Py_DecRef(done);
  times_.overhead_ns += NowNs() - begin_ns;
}

void TorchTracer::DataWaited(std::int64_t duration_ns) {
  times_.data_wait_ns = std::max<std::int64_t>(times_.data_wait_ns, 0) + duration_ns;
}

void TorchTracer::BackwardBegins() {
  if (!running_) return;
  outermost_.clear();
  if (backward_depth_++ == 0) backward_begin_ns_ = NowNs();
}

void TorchTracer::BackwardEnded(bool raised) {
  if (!running_ || backward_depth_ == 0 || --backward_depth_ > 0) return;
  const std::int64_t now_ns = NowNs();
  times_.backward_ns += now_ns - backward_begin_ns_;
  // With an exception set nothing may be called.
  if (!raised && sampling_ && !sampled_.moments.empty()) OnMoment(BackwardMoment::Kind::kPassEnd, -1);
}

void TorchTracer::OptimizerBegins(TracedThread* thread, PyObject* optimizer) {
  if (!running_) return;
  if (objects_.on_gradients != nullptr) {
    const std::int64_t begin_ns = NowNs();
    if (PyObject* done = Ask(objects_.on_gradients, optimizer)) api_->Py_DecRef(done);
    if (!running_) return;
    times_.overhead_ns += NowNs() - begin_ns;
  }
  if (thread != nullptr) trainer_ = thread;
  before_optimizer_ns_ = times_.forward_ns + times_.backward_ns;
  optimizer_begin_ns_ = NowNs();
}

void TorchTracer::OptimizerEnded(PyObject* optimizer) {
  if (!running_ || optimizer_begin_ns_ == 0) return;
  const std::int64_t begin_ns = std::exchange(optimizer_begin_ns_, 0);
  const std::int64_t end_ns = NowNs();
  // Some optimizers call the model themselves.
  const std::int64_t within_ns = times_.forward_ns + times_.backward_ns - before_optimizer_ns_;
  times_.optimizer_ns += std::max<std::int64_t>(end_ns - begin_ns - within_ns, 0);
  if (sampling_) TorchRows(*this).NoteOptimizer(optimizer, begin_ns, end_ns);
  if (explicit_steps_) return;
  // One optimizer counts: the first, until another one makes two steps without it.
  if (optimizer_ != nullptr && optimizer != optimizer_) {
    const bool again = std::find(others_.begin(), others_.end(), optimizer) != others_.end();
    if (!again && others_.size() < kMostOutermost) return others_.push_back(optimizer);
  }
  const bool first = std::exchange(optimizer_, optimizer) == nullptr;
  others_.clear();
  if (PyObject* number = first ? Ask(objects_.first_step, optimizer) : nullptr) {
    // As many as it has made: the same on all ranks, whenever each was asked to trace.
    int overflow = 0;
    const long long made = api_->PyLong_AsLongLongAndOverflow(number, &overflow);
    if (made > step_) step_ = made - 1;
    api_->PyErr_Clear();
    api_->Py_DecRef(number);
  }
  EndStep(end_ns, {});
}

void TorchTracer::StepBegins(std::int64_t number) {
  if (!running_) return;
  explicit_steps_ = true;
  EndStep(NowNs(), number);
}

}  // namespace probing::pyapi
