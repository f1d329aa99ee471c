// TorchTracer: what a job does with PyTorch, step by step.
//
// torch.py finds torch and hangs us into it; this is what is called from there, on threads of the job.
// Every step is timed; in some steps (sampling.h) every call of a module is noted as well, and
// written when the step is over. Between those steps a call of a module costs a few instructions more.
//
// One for the process, all with the GIL. It is never freed while calls of the job may be inside: they
// notice by generation() that their step is over, or that nobody traces any more.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "pyapi/ref.h"
#include "record/recorder.h"
#include "torch/clock.h"
#include "torch/cycle.h"
#include "torch/function_patch.h"
#include "torch/gpu.h"
#include "torch/nodes.h"
#include "torch/sampling.h"
#include "torch/step.h"
#include "torch/threads.h"

namespace probing::torch {

class TorchTracer {
 public:
  struct Options {
    double rate = 0.05;
    bool may_thin = false;  // sampling.h
    double max_overhead = 0.03;
    bool modules = true;
    bool backward = true;
    bool looks = false;  // at what each call of a module returns, not only in steps that are traced in full
  };
  // Of torch.py and torch; null where there is none. The references are ours while it runs.
  struct Objects {
    PyObject* name_modules = nullptr;  // (outermost module, module): calls AddName() for all it finds
    PyObject* on_sampled = nullptr;    // () -> bool: whether the GPU is in use
    PyObject* on_step = nullptr;  // (number): a step ends. Nanoseconds that are within a bound of their own
    PyObject* first_step = nullptr;      // (optimizer) -> int: how many steps it has made
    PyObject* grad_enabled = nullptr;    // () -> bool
    PyObject* tensor = nullptr;          // torch.Tensor
    PyObject* parameter = nullptr;       // torch.nn.Parameter
    PyObject* new_event = nullptr;       // () -> torch.cuda.Event
    PyObject* capturing = nullptr;       // () -> bool: nothing may be asked of the GPU now
    PyObject* gpu_memory = nullptr;      // (device) -> (allocated, max_allocated, cached) in MB
    PyObject* on_output = nullptr;       // (module, what it returned): looks for NaN
    PyObject* on_gradients = nullptr;    // (optimizer): the same, before its step
    PyObject* carrier = nullptr;         // an empty tensor (nodes.h)
    PyObject* is_trained = nullptr;      // (module) -> bool: an optimizer has parameters of it
    PyObject* is_updated = nullptr;      // (module) -> bool: its parameters changed since it was asked last
    PyObject* generates = nullptr;       // () -> bool: what calls the module now is no validation
    PyObject* note_optimizer = nullptr;  // (optimizer), once
  };
  static constexpr std::size_t kObjects = 17;

  // False when the tables cannot be had.
  bool Start(const PythonApi& api, const Options& options, PyObject* const* objects);
  // Takes everything back that hangs in the job, and forgets it.
  void Stop();

  bool running() const { return running_; }
  std::int64_t step() const { return step_; }
  // Not of an object: the fast path of a call looks at nothing else.
  static bool sampling() { return sampling_; }
  // Whether calls within others are looked at although the step is not traced in full.
  static bool looking() { return looking_; }
  std::uint64_t generation() const { return generation_; }
  std::int64_t NowNs() const { return clock_.NowNs(); }
  bool IsTrainer(const TracedThread& thread) const { return thread.id == trainer_; }
  // Around nn.Module.__call__. In a step that is not traced in full it may be paused while the training
  // thread is within a call: nothing is noted of those below it.
  FunctionPatch& calls() { return calls_; }

  // Leaves a message in python.spans. Nothing while it does not run.
  void Say(const std::string& message);

  // ── names of modules ──
  void AddName(PyObject* module, const std::string& path, const std::string& type, bool wanted);
  void ForgetName(const PyObject* module) {
    names_.erase(module);
    expected_.clear();  // its address may be another one's soon
  }

  // ── what the job does ──
  void OutermostBegins(TracedThread& thread, PyObject* module, std::int64_t now_ns);
  void OutermostEnded(const TracedThread& thread, std::int64_t begin_ns);
  // REQUIRES: sampling(). −1 when the call is not noted.
  std::int32_t CallBegins(TracedThread& thread, PyObject* const* arguments, std::size_t count);
  // `result` is null when it raised. REQUIRES: the generation has not changed meanwhile.
  void CallEnded(TracedThread& thread, std::int32_t index, PyObject* const* arguments, std::size_t count,
                 PyObject* result);
  bool looks_at_outputs() const { return objects_.on_output != nullptr; }
  void LookAtOutput(const TracedThread& thread, PyObject* module, PyObject* result);
  // The next step is traced in full, whatever the rate.
  void TraceNext() { sample_next_ = true; }
  // Around the fetching of a batch. `thread` is null where there are too many.
  void FetchBegins(const TracedThread* thread, std::int64_t now_ns);
  void FetchEnded(const TracedThread* thread, std::int64_t begin_ns, std::int64_t end_ns);
  void BackwardBegins(const TracedThread* thread);
  void BackwardEnded(const TracedThread* thread, bool raised);
  void OptimizerBegins(const TracedThread* thread, PyObject* optimizer);
  void OptimizerEnded(PyObject* optimizer);
  // Around what calls an optimizer, or does without when a gradient is not finite (a GradScaler, an engine).
  // Calls of optimizers within it are a part of it. `updated`: it is an update of the parameters.
  void UpdateBegins(const TracedThread* thread);
  void UpdateEnded(PyObject* optimizer, bool updated);
  // The job says itself which step begins; from now on nothing else counts.
  void StepBegins(std::int64_t number);
  // The job has this number for the step that runs.
  void NumberIs(std::int64_t number);
  // Autograd has come to a tensor that was watched.
  void OnMoment(BackwardMoment::Kind kind, std::int32_t call);

 private:
  friend class TorchRows;

  // Tells torch.py, then Boundary().
  void EndStep(std::int64_t now_ns, Phase phase, std::optional<std::int64_t> next = {});
  void Boundary(std::int64_t now_ns, Phase phase, std::optional<std::int64_t> next, std::int64_t called_ns,
                std::int64_t bounded_ns);
  bool IsToBeTraced(Phase last);
  void BeginSampledStep(std::int64_t now_ns);
  // Where what came before ends, when something else has begun: with the fetching of its batch.
  std::int64_t CutNs(std::int64_t now_ns) const { return fetch_begin_ns_ != 0 ? fetch_begin_ns_ : now_ns; }
  void Updated(const void* which, PyObject* optimizer, std::int64_t end_ns);
  void BeginUpdate(const TracedThread* thread);
  void CountAsOptimizer(std::int64_t end_ns);
  void TakeNumberOf(PyObject* optimizer);
  void Evaluates(PyObject* module, bool again, std::int64_t now_ns);
  void EndEvaluation(std::int64_t now_ns);
  bool IsTrained(PyObject* module);
  bool IsInTraining(PyObject* module) const;
  void LeaveGap(std::int64_t now_ns);
  void WritePending();
  void Release(SampledStep& step);
  const ModuleName* NameOf(PyObject* root, PyObject* module);
  const ModuleName* ExpectedName(PyObject* root, PyObject* module);
  void WatchBackward(std::int32_t index, PyObject* const* arguments, std::size_t count, PyObject* result);
  std::int32_t GpuCallBegins(PyObject* const* arguments, std::size_t count);  // −1: not on one
  void GpuCallEnded(std::size_t index);
  std::int32_t GpuOf(PyObject* tensor) const;
  GpuMemory MemoryOf(std::int32_t gpu) const;
  PyObject* FirstTensor(PyObject* value) const;
  bool IsTensor(const PyObject* value) const;
  // Null when it raised, or there is nothing to call; no exception is left. REQUIRES: none is set.
  pyapi::Ref Ask(PyObject* callable, PyObject* first = nullptr, PyObject* second = nullptr) const;
  bool AskBool(PyObject* callable, PyObject* first = nullptr) const;
  bool GradientsAreOff() const;

  const PythonApi* api_ = nullptr;
  Options options_;
  Objects objects_;
  bool running_ = false;
  static inline bool sampling_ = false;
  static inline bool looking_ = false;
  std::uint64_t generation_ = 1;
  FunctionPatch calls_;
  StepClock clock_;

  // The step that runs. Numbers go on when the tracing begins anew.
  std::int64_t step_ = 0;
  StepSource source_ = StepSource::kCounted;
  bool job_said_ = false;        // its number, of this step
  bool wrote_training_ = false;  // a row of a training step, once
  bool complete_ = false;        // we have seen its beginning
  bool sample_next_ = true;
  StepTimes times_;
  std::int64_t look_left_ns_ = 0;  // that may still be spent on looking at outputs
  SampledStep sampled_;
  std::size_t last_calls_ = 0;  // of the step that was traced last: so much room is made at once
  std::int64_t seq_step_ = -1;  // the step of the rows that were written last, and their number
  std::int64_t seq_ = 0;
  RateKeeper rate_;
  BackwardTurns turns_;

  // What ends a step.
  bool explicit_steps_ = false;
  UpdateCycle cycle_;
  const PyObject* numbered_ = nullptr;      // optimizer whose number was asked for last; only compared
  const void* trainer_ = nullptr;           // id of the thread that trains
  bool trainer_is_sure_ = false;            // an optimizer was called on it
  bool trains_ = false;                     // a backward pass was made, once
  bool has_modules_ = false;                // a module was called, once
  std::vector<const PyObject*> outermost_;  // modules that were called since the last backward pass

  // What was seen in the step that runs.
  bool has_trained_ = false;    // a backward pass, or an optimizer
  bool has_gradients_ = false;  // a module was called with gradients
  bool evaluates_ = false;      // a module was called without, before any other
  bool is_apart_ = false;       // that is no part of a training step
  Phase evaluation_ = Phase::kValidate;
  std::int64_t evaluated_again_ = 0;
  std::int64_t evaluations_ = 0;                       // that were written, in all
  std::unordered_map<const PyObject*, bool> trained_;  // IsTrained()
  std::unordered_set<const PyObject*> optimizers_;     // that were noted

  int backward_depth_ = 0;
  std::int64_t backward_begin_ns_ = 0;
  bool updated_in_backward_ = false;
  std::int64_t in_backward_ns_ = 0;  // optimizers, within the backward pass
  std::int64_t optimizer_begin_ns_ = 0;
  bool is_wrapped_ = false;  // within UpdateBegins()
  std::int64_t inner_begin_ns_ = 0;
  std::int64_t closure_ns_ = 0;  // forward to backward within the optimizer
  std::int64_t closure_begin_ns_ = 0;
  std::int64_t closure_end_ns_ = 0;

  // Waiting for data. A gap is where the training thread neither computes nor fetches: from the end of a step
  // or a backward pass to the next call of a module.
  std::int64_t fetch_begin_ns_ = 0;   // of the first batch since the last call of a module
  std::int64_t fetched_ns_ = 0;       // waited since then
  std::int64_t gap_begin_ns_ = 0;     // 0: there is none
  std::int64_t beside_begin_ns_ = 0;  // another thread fetches since then

  TorchNodes nodes_;
  std::pair<const PyObject*, std::int32_t> last_output_{};

  std::unordered_map<const PyObject*, const ModuleName*> names_;
  // The calls of the last traced step, by their number: the next one mostly makes the same.
  std::vector<std::pair<const PyObject*, const ModuleName*>> expected_;
  std::map<std::pair<std::string, std::string>, ModuleName> all_names_;
  GpuClock gpu_;
  std::deque<SampledStep> pending_;  // the GPU has not come to their end

  record::TableHandle* trace_table_ = nullptr;
  record::TableHandle* steps_table_ = nullptr;
};

// The one there is; made when it is first asked for.
TorchTracer& TheTorchTracer();
// Frees it. REQUIRES: it does not run, and no call of the job is inside.
void ForgetTorchTracer();

}  // namespace probing::torch
