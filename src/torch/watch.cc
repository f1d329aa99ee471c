// TorchTracer: calls of modules in a step that is traced in full, and how autograd comes back to them.
#include <algorithm>
#include <utility>

#include "pyapi/ref.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::Ref;

namespace {

using Kind = BackwardMoment::Kind;
constexpr std::size_t kMostCalls = 200'000;  // in one step
constexpr std::ptrdiff_t kMostSearched = 8;  // values of a tuple, for a tensor

// What noting a call takes is a few times what reading the clock does: it is measured in one of eight.
constexpr std::int64_t kWeighed = 8;
bool Weighed(std::size_t call) { return call % kWeighed == 0; }

}  // namespace

const ModuleName* TorchTracer::NameOf(PyObject* root, PyObject* module) {
  if (const auto found = names_.find(module); found != names_.end()) return found->second;
  (void)Ask(objects_.name_modules, root, module);
  const auto found = names_.find(module);
  return found == names_.end() ? nullptr : found->second;
}

// The same; where the step before had this module at this place it need not be looked for.
const ModuleName* TorchTracer::ExpectedName(PyObject* root, PyObject* module) {
  const std::size_t place = sampled_.calls.size();
  if (place < expected_.size() && expected_[place].first == module) return expected_[place].second;
  const std::uint64_t generation = generation_;
  const ModuleName* name = NameOf(root, module);
  if (generation_ != generation || name == nullptr || !name->wanted) return nullptr;
  if (place < expected_.size()) {
    expected_[place] = {module, name};
  } else if (place == expected_.size()) {
    expected_.emplace_back(module, name);
  }
  return name;
}

std::int32_t TorchTracer::CallBegins(TracedThread& thread, PyObject* const* arguments, std::size_t count) {
  const std::uint64_t generation = generation_;
  const std::int64_t weighed_ns = Weighed(sampled_.calls.size()) ? NowNs() : 0;
  const ModuleName* name = ExpectedName(thread.root, arguments[0]);
  if (generation_ != generation || name == nullptr || sampled_.calls.size() >= kMostCalls) return -1;
  TorchCall call;
  call.name = name;
  if (sampled_.base_event != nullptr) {
    call.gpu = GpuCallBegins(arguments, count);
    if (generation_ != generation) return -1;
  }
  const auto index = static_cast<std::int32_t>(sampled_.calls.size());
  call.range.last = index;
  call.beside = thread.beside;
  call.outer = thread.generation == generation ? thread.top : -1;
  thread.top = index;
  thread.generation = generation;
  call.begin_ns = NowNs();
  sampled_.calls.push_back(call);
  if (weighed_ns != 0) times_.overhead_ns += kWeighed * (call.begin_ns - weighed_ns);
  return index;
}

void TorchTracer::CallEnded(TracedThread& thread, std::int32_t index, PyObject* const* arguments,
                            std::size_t count, PyObject* result) {
  const std::int64_t now_ns = NowNs();
  const std::uint64_t generation = generation_;
  TorchCall* call = &sampled_.calls[static_cast<std::size_t>(index)];
  call->end_ns = now_ns;
  call->range.last = static_cast<std::int32_t>(sampled_.calls.size()) - 1;
  thread.top = call->outer;
  if (result == nullptr) return;  // with an exception set nothing may be called
  if (call->gpu >= 0) {
    GpuCallEnded(static_cast<std::size_t>(call->gpu));
    if (generation_ != generation) return;
    call = &sampled_.calls[static_cast<std::size_t>(index)];
  }
  const bool watched = options_.backward && turns_.Takes(now_ns - call->begin_ns, index);
  if (watched) {
    WatchBackward(index, arguments, count, result);
  } else {
    call->range.skipped = true;
  }
  if (generation_ != generation) return;
  if (watched) {
    times_.overhead_ns += NowNs() - now_ns;
  } else if (Weighed(static_cast<std::size_t>(index))) {
    times_.overhead_ns += kWeighed * (NowNs() - now_ns);
  }
}

// ── on a GPU ──

std::int32_t TorchTracer::GpuCallBegins(PyObject* const* arguments, std::size_t count) {
  const std::uint64_t generation = generation_;
  GpuCall call;
  for (std::size_t i = 1; i < count && call.gpu < 0; ++i) {
    if (PyObject* tensor = FirstTensor(arguments[i])) call.gpu = GpuOf(tensor);
  }
  if (call.gpu < 0) return -1;
  call.begin_event = gpu_.Record();
  if (generation_ != generation) {
    gpu_.GiveBack(call.begin_event);
    return -1;
  }
  sampled_.gpu_calls.push_back(call);
  return static_cast<std::int32_t>(sampled_.gpu_calls.size()) - 1;
}

void TorchTracer::GpuCallEnded(std::size_t index) {
  const std::uint64_t generation = generation_;
  PyObject* event = sampled_.gpu_calls[index].begin_event == nullptr ? nullptr : gpu_.Record();
  if (generation_ != generation) return gpu_.GiveBack(event);
  const GpuMemory memory = MemoryOf(sampled_.gpu_calls[index].gpu);
  if (generation_ != generation) return gpu_.GiveBack(event);
  sampled_.gpu_calls[index].end_event = event;
  sampled_.gpu_calls[index].memory = memory;
}

std::int32_t TorchTracer::GpuOf(PyObject* tensor) const {
  const Ref answer = Ref::New(*api_, api_->PyObject_GetAttrString(tensor, "is_cuda"));
  api_->PyErr_Clear();
  if (answer.get() != api_->_Py_TrueStruct) return -1;
  const Ref get_device = Ref::New(*api_, api_->PyObject_GetAttrString(tensor, "get_device"));
  api_->PyErr_Clear();
  const Ref number = Ask(get_device.get());
  if (!number) return -1;
  int overflow = 0;
  const auto gpu = static_cast<std::int32_t>(api_->PyLong_AsLongLongAndOverflow(number.get(), &overflow));
  api_->PyErr_Clear();
  return gpu;
}

GpuMemory TorchTracer::MemoryOf(std::int32_t gpu) const {
  GpuMemory memory;
  const Ref number =
      Ref::New(*api_, objects_.gpu_memory == nullptr ? nullptr : api_->PyLong_FromLongLong(gpu));
  const Ref answer = number ? Ask(objects_.gpu_memory, number.get()) : Ref();
  if (!answer) return memory;
  const bool is_tuple = api_->TypeOf(answer.get()) == api_->PyTuple_Type;
  double* const fields[] = {&memory.allocated, &memory.max_allocated, &memory.cached};
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    PyObject* item = is_tuple ? api_->PyTuple_GetItem(answer.get(), i) : nullptr;
    if (item != nullptr) *fields[i] = api_->PyFloat_AsDouble(item);
    api_->PyErr_Clear();
  }
  return memory;
}

// ── backward ──

bool TorchTracer::IsTensor(const PyObject* value) const {
  const PyObject* type = api_->TypeOf(value);
  return type == objects_.tensor || type == objects_.parameter;
}

// Exactly torch's own classes: a FakeTensor, a Proxy or a DTensor are left alone.
PyObject* TorchTracer::FirstTensor(PyObject* value) const {
  if (objects_.tensor == nullptr) return nullptr;
  if (IsTensor(value)) return value;
  if (api_->TypeOf(value) != api_->PyTuple_Type) return nullptr;
  const std::ptrdiff_t size = api_->PyTuple_Size(value);
  for (std::ptrdiff_t i = 0; i < std::min(size, kMostSearched); ++i) {
    PyObject* item = api_->PyTuple_GetItem(value, i);
    if (item != nullptr && IsTensor(item)) return item;
  }
  return nullptr;
}

void TorchTracer::WatchBackward(std::int32_t index, PyObject* const* arguments, std::size_t count,
                                PyObject* result) {
  const std::uint64_t generation = generation_;
  PyObject* output = FirstTensor(result);
  if (output != nullptr && last_output_.first == output && last_output_.second > index) {
    // An inner call has returned the same tensor: its moment is ours, too.
    sampled_.calls[static_cast<std::size_t>(index)].range.shares = last_output_.second;
  } else if (output != nullptr && nodes_.Watch(output, index, Kind::kBegin) && generation_ == generation) {
    last_output_ = {output, index};
    turns_.Watched();
  }
  PyObject* input = nullptr;
  for (std::size_t i = 1; i < count && input == nullptr; ++i) input = FirstTensor(arguments[i]);
  if (generation_ != generation || input == nullptr || input == output) return;
  // Unless that moment is noted as the one before's.
  if (nodes_.Watch(input, index, Kind::kEnd)) turns_.Watched();
}

// A hot path: on threads of autograd, too, and always with the GIL.
void TorchTracer::OnMoment(Kind kind, std::int32_t call) {
  if (!sampling_) return;
  PyObject* event = nullptr;
  if (sampled_.base_event != nullptr) {
    const std::uint64_t generation = generation_;
    event = gpu_.Record();
    if (generation_ != generation) return gpu_.GiveBack(event);
  }
  constexpr std::int64_t kToldNs = 3'000;  // measured: what autograd takes to call us, which we cannot see
  times_.overhead_ns += kToldNs;
  sampled_.moments.push_back({kind, call, NowNs()});
  sampled_.moment_events.push_back(event);
}

}  // namespace probing::torch
