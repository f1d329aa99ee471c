// TorchTracer: what a job does with PyTorch, step by step.
//
// torch.py finds torch and hangs us into it; this is what is called from there, on threads of the job.
// Every step is timed; in some steps (torch_sampling.h) every call of a module is noted as well, and
// written when the step is over. Between those steps a call of a module costs a few instructions more.
//
// One for the process, all with the GIL. It is never freed while calls of the job may be inside: they
// notice by generation() that their step is over, or that nobody traces any more.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "pyapi/function_patch.h"
#include "pyapi/recorder.h"
#include "pyapi/torch_clock.h"
#include "pyapi/torch_gpu.h"
#include "pyapi/torch_nodes.h"
#include "pyapi/torch_sampling.h"
#include "pyapi/torch_step.h"
#include "pyapi/torch_threads.h"

namespace probing::pyapi {

class TorchTracer {
 public:
  struct Options {
    double rate = 0.05;
    bool may_thin = false;  // torch_sampling.h
    double max_overhead = 0.03;
    bool modules = true;
    bool backward = true;
  };
  // Of torch.py and torch; null where there is none. The references are ours while it runs.
  struct Objects {
    PyObject* name_modules = nullptr;  // (outermost module, module): calls AddName() for all it finds
    PyObject* on_sampled = nullptr;    // () -> bool: whether the GPU is in use
    PyObject* on_step = nullptr;  // (number): a step ends. Nanoseconds that are within a bound of their own
    PyObject* first_step = nullptr;    // (optimizer) -> int: how many steps it has made
    PyObject* grad_enabled = nullptr;  // () -> bool
    PyObject* tensor = nullptr;        // torch.Tensor
    PyObject* parameter = nullptr;     // torch.nn.Parameter
    PyObject* new_event = nullptr;     // () -> torch.cuda.Event
    PyObject* capturing = nullptr;     // () -> bool: nothing may be asked of the GPU now
    PyObject* gpu_memory = nullptr;    // (device) -> (allocated, max_allocated, cached) in MB
    PyObject* on_output = nullptr;     // (module, what it returned): looks for NaN
    PyObject* on_gradients = nullptr;  // (optimizer): the same, before its step
    PyObject* carrier = nullptr;       // an empty tensor (torch_nodes.h)
  };
  static constexpr std::size_t kObjects = 13;

  // False when the tables cannot be had.
  bool Start(const PythonApi& api, const Options& options, PyObject* const* objects);
  // Takes everything back that hangs in the job, and forgets it.
  void Stop();

  bool running() const { return running_; }
  std::int64_t step() const { return step_; }
  // Not of an object: the fast path of a call looks at nothing else.
  static bool sampling() { return sampling_; }
  std::uint64_t generation() const { return generation_; }
  std::int64_t NowNs() const { return clock_.NowNs(); }
  bool IsTrainer(const TracedThread& thread) const { return &thread == trainer_; }
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
  void LookAtOutput(PyObject* module, PyObject* result);
  // The next step is traced in full, whatever the rate.
  void TraceNext() { sample_next_ = true; }
  void DataWaited(std::int64_t duration_ns);
  void BackwardBegins();
  void BackwardEnded(bool raised);
  void OptimizerBegins(TracedThread* thread, PyObject* optimizer);
  void OptimizerEnded(PyObject* optimizer);
  // The job says itself which step begins; from now on nothing else counts.
  void StepBegins(std::int64_t number);
  // Autograd has come to a tensor that was watched.
  void OnMoment(BackwardMoment::Kind kind, std::int32_t call);

 private:
  friend class TorchRows;

  // Tells torch.py, then Boundary().
  void EndStep(std::int64_t now_ns, std::optional<std::int64_t> next);
  void Boundary(std::int64_t now_ns, std::optional<std::int64_t> next, std::int64_t bounded_ns);
  void BeginSampledStep(std::int64_t now_ns);
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
  // A new reference, or null; no exception is left. REQUIRES: none is set.
  PyObject* Ask(PyObject* callable, PyObject* first = nullptr, PyObject* second = nullptr) const;
  bool AskBool(PyObject* callable) const;
  bool GradientsAreOff() const;

  const PythonApi* api_ = nullptr;
  Options options_;
  Objects objects_;
  bool running_ = false;
  static inline bool sampling_ = false;
  std::uint64_t generation_ = 1;
  FunctionPatch calls_;
  StepClock clock_;

  // The step that runs.
  std::int64_t step_ = 0;
  bool complete_ = false;  // we have seen its beginning
  bool sample_next_ = true;
  StepTimes times_;
  SampledStep sampled_;
  std::size_t last_calls_ = 0;  // of the step that was traced last: so much room is made at once
  RateKeeper rate_;
  BackwardTurns turns_;

  // What ends a step.
  bool explicit_steps_ = false;
  const PyObject* optimizer_ = nullptr;  // the one that counts; only compared
  std::vector<const PyObject*> others_;  // that have stepped since it did
  TracedThread* trainer_ = nullptr;
  std::vector<const PyObject*> outermost_;  // modules that were called since the last backward pass
  int backward_depth_ = 0;
  std::int64_t backward_begin_ns_ = 0;
  std::int64_t optimizer_begin_ns_ = 0;
  std::int64_t before_optimizer_ns_ = 0;

  TorchNodes nodes_;
  std::pair<const PyObject*, std::int32_t> last_output_{};

  std::unordered_map<const PyObject*, const ModuleName*> names_;
  // The calls of the last traced step, by their number: the next one mostly makes the same.
  std::vector<std::pair<const PyObject*, const ModuleName*>> expected_;
  std::map<std::pair<std::string, std::string>, ModuleName> all_names_;
  GpuClock gpu_;
  std::deque<SampledStep> pending_;  // the GPU has not come to their end

  TableHandle* trace_table_ = nullptr;
  TableHandle* steps_table_ = nullptr;
};

// The one there is; made when it is first asked for.
TorchTracer& TheTorchTracer();
// Frees it. REQUIRES: it does not run, and no call of the job is inside.
void ForgetTorchTracer();

}  // namespace probing::pyapi
