// TorchTracer: what the job does, and where a step of it begins and ends.
#include <algorithm>
#include <utility>

#include "pyapi/ref.h"
#include "torch/rows.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::Ref;

namespace {

constexpr std::size_t kMostOutermost = 32;
constexpr std::size_t kMostTrained = 256;
constexpr std::size_t kMostOptimizers = 10'000;
const char in_backward = 0;  // its address stands for all optimizers that step within a backward pass

}  // namespace

// ── calls of modules ──

void TorchTracer::OutermostBegins(TracedThread& thread, PyObject* module, std::int64_t now_ns) {
  thread.root = module;
  thread.beside = false;
  has_modules_ = true;
  if (trainer_ == nullptr) trainer_ = thread.id;
  if (!IsTrainer(thread)) {
    thread.beside = sampling_ && trains_ && GradientsAreOff();
    return;
  }
  LeaveGap(now_ns);
  if (optimizer_begin_ns_ != 0 && backward_depth_ == 0 && closure_begin_ns_ == 0) closure_begin_ns_ = now_ns;
  if (explicit_steps_ || backward_depth_ > 0 || optimizer_begin_ns_ != 0) return;
  const bool first = outermost_.empty();
  const bool again = std::find(outermost_.begin(), outermost_.end(), module) != outermost_.end();
  if (!trains_) {
    // Nothing is trained: a step is over when the same model is called again.
    if (again) EndStep(now_ns, Phase::kInfer);
  } else if (first || again || evaluates_) {
    const bool off = GradientsAreOff();
    if (off && !has_trained_ && !has_gradients_) {
      Evaluates(module, again, now_ns);
    } else if (!off) {
      EndEvaluation(now_ns);
      if (first) trained_[module] = true;
      // Without an optimizer the parameters tell whether the backward pass before was the step's last one.
      if (first && has_trained_ && cycle_.empty() &&
          (objects_.is_updated == nullptr || AskBool(objects_.is_updated, module))) {
        EndStep(CutNs(now_ns), Phase::kTrain);
      }
      has_gradients_ = true;
    }
  }
  if (running_ && outermost_.size() < kMostOutermost &&
      std::find(outermost_.begin(), outermost_.end(), module) == outermost_.end()) {
    outermost_.push_back(module);
  }
  fetch_begin_ns_ = fetched_ns_ = gap_begin_ns_ = 0;
}

// A module is called without gradients, before anything of a training step. That is a validation, or the job
// makes use of its model: each call is a row then. Or it is a part of the step: another model that it learns
// from, the actions that it learns from.
void TorchTracer::Evaluates(PyObject* module, bool again, std::int64_t now_ns) {
  if (!evaluates_) {
    evaluates_ = true;
    is_apart_ = false;
    evaluated_again_ = 0;
    evaluation_ = AskBool(objects_.generates) ? Phase::kInfer : Phase::kValidate;
  }
  constexpr std::int64_t kMostOfStep = 4;
  const bool trained = IsTrained(module);
  if (trained && !IsInTraining(module)) is_apart_ = true;
  if (!again) return;
  ++evaluated_again_;
  if (fetch_begin_ns_ != 0) is_apart_ = true;  // a batch for each call
  if (!trained && evaluated_again_ > kMostOfStep) {
    if (!is_apart_) evaluation_ = Phase::kInfer;
    is_apart_ = true;
  }
  if (is_apart_) EndStep(CutNs(now_ns), evaluation_);
}

// The training goes on.
void TorchTracer::EndEvaluation(std::int64_t now_ns) {
  const bool evaluated = std::exchange(evaluates_, false) && is_apart_ && !has_gradients_ && !has_trained_;
  if (evaluated && !explicit_steps_) EndStep(CutNs(now_ns), evaluation_);
  gap_begin_ns_ = 0;
}

bool TorchTracer::IsTrained(PyObject* module) {
  if (const auto found = trained_.find(module); found != trained_.end()) return found->second;
  if (trained_.size() >= kMostTrained) trained_.clear();
  const bool trained = AskBool(objects_.is_trained, module);
  trained_[module] = trained;
  return trained;
}

bool TorchTracer::IsInTraining(PyObject* module) const {
  const Ref answer = Ref::New(*api_, api_->PyObject_GetAttrString(module, "training"));
  api_->PyErr_Clear();
  return answer.get() == api_->_Py_TrueStruct;
}

void TorchTracer::OutermostEnded(const TracedThread& thread, std::int64_t begin_ns) {
  if (!IsTrainer(thread) || backward_depth_ > 0) return;
  const std::int64_t now_ns = NowNs();
  times_.forward_ns += now_ns - begin_ns;
  closure_end_ns_ = now_ns;
}

void TorchTracer::LookAtOutput(const TracedThread& thread, PyObject* module, PyObject* result) {
  const std::int64_t begin_ns = NowNs();
  const std::uint64_t generation = generation_;
  if (options_.looks && thread.inside) NameOf(thread.root, module);  // by its path in the whole model
  if (generation_ != generation) return;
  (void)Ask(objects_.on_output, module, result);
  const std::int64_t took_ns = NowNs() - begin_ns;
  times_.overhead_ns += took_ns;
  if (!options_.looks) return;
  times_.looked_ns += took_ns;
  times_.bounded_ns += took_ns;
}

// ── data ──

void TorchTracer::FetchBegins(const TracedThread* thread, std::int64_t now_ns) {
  if (thread == nullptr || trainer_ == nullptr || IsTrainer(*thread)) return;
  if (beside_begin_ns_ == 0) beside_begin_ns_ = now_ns;
}

void TorchTracer::FetchEnded(const TracedThread* thread, std::int64_t begin_ns, std::int64_t end_ns) {
  if (thread == nullptr) return;
  times_.data_wait_ns = std::max<std::int64_t>(times_.data_wait_ns, 0);
  if (trainer_ == nullptr || IsTrainer(*thread)) {
    times_.data_wait_ns += end_ns - begin_ns;
    fetched_ns_ += end_ns - begin_ns;
    if (fetch_begin_ns_ == 0) fetch_begin_ns_ = begin_ns;
    cycle_.Fetched();
  } else if (const std::int64_t since_ns = std::exchange(beside_begin_ns_, 0);
             since_ns != 0 && gap_begin_ns_ != 0) {
    // Another thread fetches ahead. The one that trains waits for it where neither has anything else to do.
    times_.data_wait_ns += end_ns - std::max(since_ns, gap_begin_ns_);
  }
}

void TorchTracer::LeaveGap(std::int64_t now_ns) {
  const std::int64_t gap_begin_ns = std::exchange(gap_begin_ns_, 0);
  if (gap_begin_ns == 0 || beside_begin_ns_ == 0) return;
  times_.data_wait_ns =
      std::max<std::int64_t>(times_.data_wait_ns, 0) + now_ns - std::max(beside_begin_ns_, gap_begin_ns);
}

// ── backward ──

void TorchTracer::BackwardBegins(const TracedThread* thread) {
  if (!running_ || thread == nullptr) return;
  if (!trainer_is_sure_ || trainer_ == nullptr) trainer_ = thread->id;
  if (!IsTrainer(*thread)) return;  // of a checkpoint on a thread of autograd, or of another training
  const std::int64_t now_ns = NowNs();
  LeaveGap(now_ns);
  if (backward_depth_ == 0 && optimizer_begin_ns_ == 0 && !explicit_steps_) {
    // Without modules and optimizers there is nothing else to tell where a step ends.
    if (!has_modules_ && cycle_.empty() && has_trained_) EndStep(CutNs(now_ns), Phase::kTrain);
    EndEvaluation(now_ns);
    if (!running_) return;
  }
  outermost_.clear();
  if (backward_depth_++ == 0) {
    backward_begin_ns_ = NowNs();
    in_backward_ns_ = 0;
    updated_in_backward_ = false;
  }
}

void TorchTracer::BackwardEnded(const TracedThread* thread, bool raised) {
  if (!running_ || thread == nullptr || !IsTrainer(*thread)) return;
  if (backward_depth_ == 0 || --backward_depth_ > 0) return;
  const std::int64_t now_ns = NowNs();
  times_.backward_ns += std::max<std::int64_t>(now_ns - backward_begin_ns_ - in_backward_ns_, 0);
  ++times_.backward_passes;
  trains_ = has_trained_ = true;
  cycle_.Worked();
  if (optimizer_begin_ns_ != 0) {
    closure_ns_ += now_ns - (closure_begin_ns_ != 0 ? closure_begin_ns_ : backward_begin_ns_);
    closure_begin_ns_ = 0;
  } else {
    gap_begin_ns_ = now_ns;
  }
  fetch_begin_ns_ = fetched_ns_ = 0;
  if (raised) return;  // with an exception set nothing may be called
  if (sampling_ && !sampled_.moments.empty()) OnMoment(BackwardMoment::Kind::kPassEnd, -1);
  if (running_ && std::exchange(updated_in_backward_, false)) Updated(&in_backward, nullptr, now_ns);
}

// ── updates of the parameters ──

void TorchTracer::OptimizerBegins(const TracedThread* thread, PyObject* optimizer) {
  if (!running_) return;
  if (optimizers_.size() < kMostOptimizers && optimizers_.insert(optimizer).second) {
    (void)Ask(objects_.note_optimizer, optimizer);
    if (!running_) return;
  }
  if (objects_.on_gradients != nullptr) {
    const std::int64_t begin_ns = NowNs();
    (void)Ask(objects_.on_gradients, optimizer);
    if (!running_) return;
    times_.overhead_ns += NowNs() - begin_ns;
  }
  if (backward_depth_ == 0 && !is_wrapped_) BeginUpdate(thread);
  if (!running_) return;
  inner_begin_ns_ = NowNs();
}

void TorchTracer::OptimizerEnded(PyObject* optimizer) {
  if (!running_ || inner_begin_ns_ == 0) return;
  const std::int64_t begin_ns = std::exchange(inner_begin_ns_, 0);
  const std::int64_t end_ns = NowNs();
  if (sampling_) TorchRows(*this).NoteOptimizer(optimizer, begin_ns, end_ns);
  has_trained_ = true;
  if (backward_depth_ > 0) {  // a parameter's, as soon as its gradient is there
    if (numbered_ == nullptr) TakeNumberOf(optimizer);
    times_.optimizer_ns += end_ns - begin_ns;
    in_backward_ns_ += end_ns - begin_ns;
    updated_in_backward_ = true;
  } else if (!is_wrapped_) {
    CountAsOptimizer(end_ns);
    Updated(optimizer, optimizer, end_ns);
  }
}

void TorchTracer::BeginUpdate(const TracedThread* thread) {
  if (thread != nullptr) trainer_ = thread->id;
  trainer_is_sure_ = true;
  const std::int64_t now_ns = NowNs();
  LeaveGap(now_ns);
  EndEvaluation(now_ns);  // all of a step may be within the call of the optimizer
  if (!running_) return;
  optimizer_begin_ns_ = NowNs();
  closure_ns_ = closure_begin_ns_ = 0;
}

void TorchTracer::UpdateBegins(const TracedThread* thread) {
  if (!running_ || backward_depth_ > 0) return;
  BeginUpdate(thread);
  is_wrapped_ = running_;
}

void TorchTracer::UpdateEnded(PyObject* optimizer, bool updated) {
  if (!running_ || !std::exchange(is_wrapped_, false)) return;
  const std::int64_t end_ns = NowNs();
  CountAsOptimizer(end_ns);
  if (!updated) return;
  has_trained_ = true;
  Updated(optimizer, optimizer, end_ns);
}

// Forward and backward passes within it, of a closure, are not the optimizer's.
void TorchTracer::CountAsOptimizer(std::int64_t end_ns) {
  if (closure_begin_ns_ != 0) closure_ns_ += closure_end_ns_ - std::exchange(closure_begin_ns_, 0);
  const std::int64_t begin_ns = std::exchange(optimizer_begin_ns_, 0);
  times_.optimizer_ns += std::max<std::int64_t>(end_ns - begin_ns - closure_ns_, 0);
}

void TorchTracer::Updated(const void* which, PyObject* optimizer, std::int64_t end_ns) {
  if (explicit_steps_ || !cycle_.Updated(which)) return;
  TakeNumberOf(optimizer);
  if (running_) EndStep(end_ns, Phase::kTrain);
}

// As many as the optimizer has made: the same on all ranks, whenever each was asked to trace. Never less than
// before: the numbers of training steps do not restart.
void TorchTracer::TakeNumberOf(PyObject* optimizer) {
  if (optimizer == nullptr || numbered_ == optimizer || source_ == StepSource::kJob) return;
  numbered_ = optimizer;
  const Ref number = Ask(objects_.first_step, optimizer);
  if (!number) return;
  int overflow = 0;
  const long long made =
      number.get() == api_->_Py_NoneStruct ? 0 : api_->PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  api_->PyErr_Clear();
  const bool is_known = made > 0 && (made - 1 >= step_ || !wrote_training_);
  source_ = is_known ? StepSource::kOptimizer : StepSource::kCounted;
  if (is_known) step_ = made - 1;
}

void TorchTracer::StepBegins(std::int64_t number) {
  if (!running_) return;
  explicit_steps_ = true;
  const bool evaluated = !has_trained_ && trains_ && times_.forward_ns > 0;
  EndStep(NowNs(), evaluated ? Phase::kValidate : Phase::kTrain, number);
  source_ = StepSource::kJob;
  job_said_ = true;
  step_ = number;
}

void TorchTracer::NumberIs(std::int64_t number) {
  if (!running_ || explicit_steps_ || (number < step_ && wrote_training_)) return;
  step_ = number;
  source_ = StepSource::kJob;
  job_said_ = true;
}

}  // namespace probing::torch
