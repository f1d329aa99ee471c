// TorchTracer: calls of modules in a step that is traced in full, and how autograd comes back to them.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "pyapi/functions.h"
#include "pyapi/torch_tracer.h"

namespace probing::pyapi {
namespace {

using Kind = BackwardMoment::Kind;
constexpr std::size_t kMostCalls = 200'000;  // in one step
constexpr std::ptrdiff_t kMostSearched = 8;  // values of a tuple, for a tensor

// hook(gradients) -> None: autograd comes to the node of a tensor. `self` says which.
PyObject* OnNode(PyObject* self, PyObject* const*, std::ptrdiff_t) {
  const PythonApi& api = *FindPython();
  const auto data = reinterpret_cast<std::uintptr_t>(FunctionData(api, self)) - 1;
  TheTorchTracer().OnMoment(data % 2 == 0 ? Kind::kBegin : Kind::kEnd, static_cast<std::int32_t>(data / 2));
  api.Py_IncRef(api._Py_NoneStruct);
  return api._Py_NoneStruct;
}

PyMethodDef on_node{"on_node", reinterpret_cast<void*>(&OnNode), kMethFastcall,
                    "of Probing: a module's backward begins or ends"};

}  // namespace

const ModuleName* TorchTracer::NameOf(PyObject* root, PyObject* module) {
  if (const auto found = names_.find(module); found != names_.end()) return found->second;
  if (PyObject* done = Ask(objects_.name_modules, root, module)) api_->Py_DecRef(done);
  const auto found = names_.find(module);
  return found == names_.end() ? nullptr : found->second;
}

std::int32_t TorchTracer::CallBegins(TracedThread& thread, PyObject* const* arguments, std::size_t count) {
  const std::uint64_t generation = generation_;
  const ModuleName* name = NameOf(thread.root, arguments[0]);
  if (generation_ != generation || name == nullptr || !name->wanted) return -1;
  if (sampled_.calls.size() >= kMostCalls) return -1;
  TorchCall call;
  call.name = name;
  if (sampled_.base_event != nullptr) {
    for (std::size_t i = 1; i < count && call.gpu < 0; ++i) {
      if (PyObject* tensor = FirstTensor(arguments[i])) call.gpu = GpuOf(tensor);
    }
    if (call.gpu >= 0) call.begin_event = gpu_.Record();
    if (generation_ != generation) {
      gpu_.GiveBack(call.begin_event);
      return -1;
    }
  }
  const auto index = static_cast<std::int32_t>(sampled_.calls.size());
  call.range.last = index;
  call.outer = thread.generation == generation ? thread.top : -1;
  thread.top = index;
  thread.generation = generation;
  call.begin_ns = MonotonicNs();
  sampled_.calls.push_back(call);
  return index;
}

void TorchTracer::CallEnded(TracedThread& thread, std::int32_t index, PyObject* const* arguments,
                            std::size_t count, PyObject* result) {
  const std::int64_t now_ns = MonotonicNs();
  const std::uint64_t generation = generation_;
  TorchCall* call = &sampled_.calls[static_cast<std::size_t>(index)];
  call->end_ns = now_ns;
  call->range.last = static_cast<std::int32_t>(sampled_.calls.size()) - 1;
  thread.top = call->outer;
  if (result == nullptr) return;  // with an exception set nothing may be called
  if (call->gpu >= 0) {
    PyObject* event = call->begin_event == nullptr ? nullptr : gpu_.Record();
    const GpuMemory memory = MemoryOf(call->gpu);
    if (generation_ != generation) return gpu_.GiveBack(event);
    call = &sampled_.calls[static_cast<std::size_t>(index)];
    call->end_event = event;
    call->memory = memory;
  }
  if (options_.backward && turns_.Takes(now_ns - call->begin_ns, index)) {
    WatchBackward(index, arguments, count, result);
  } else {
    call->range.skipped = true;
  }
  if (generation_ == generation) times_.overhead_ns += MonotonicNs() - now_ns;
}

std::int32_t TorchTracer::GpuOf(PyObject* tensor) const {
  PyObject* answer = api_->PyObject_GetAttrString(tensor, "is_cuda");
  const bool on_gpu = answer == api_->_Py_TrueStruct;
  if (answer != nullptr) api_->Py_DecRef(answer);
  api_->PyErr_Clear();
  if (!on_gpu) return -1;
  PyObject* get_device = api_->PyObject_GetAttrString(tensor, "get_device");
  api_->PyErr_Clear();
  PyObject* number = Ask(get_device);
  if (get_device != nullptr) api_->Py_DecRef(get_device);
  if (number == nullptr) return -1;
  int overflow = 0;
  const auto gpu = static_cast<std::int32_t>(api_->PyLong_AsLongLongAndOverflow(number, &overflow));
  api_->Py_DecRef(number);
  api_->PyErr_Clear();
  return gpu;
}

GpuMemory TorchTracer::MemoryOf(std::int32_t gpu) const {
  GpuMemory memory;
  PyObject* number = objects_.gpu_memory == nullptr ? nullptr : api_->PyLong_FromLongLong(gpu);
  PyObject* answer = number == nullptr ? nullptr : Ask(objects_.gpu_memory, number);
  if (number != nullptr) api_->Py_DecRef(number);
  if (answer == nullptr) return memory;
  double* const fields[] = {&memory.allocated, &memory.max_allocated, &memory.cached};
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    PyObject* item = api_->TypeOf(answer) == api_->PyTuple_Type ? api_->PyTuple_GetItem(answer, i) : nullptr;
    if (item != nullptr) *fields[i] = api_->PyFloat_AsDouble(item);
    api_->PyErr_Clear();
  }
  api_->Py_DecRef(answer);
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
  } else if (output != nullptr && Watch(output, index, Kind::kBegin) && generation_ == generation) {
    last_output_ = {output, index};
  }
  PyObject* input = nullptr;
  for (std::size_t i = 1; i < count && input == nullptr; ++i) input = FirstTensor(arguments[i]);
  if (generation_ != generation || input == nullptr || input == output) return;
  if (!watched_.contains(input)) (void)Watch(input, index, Kind::kEnd);
}

// Has autograd tell when it comes to the node that made the tensor. False when there is none, or when
// that moment is noted already.
bool TorchTracer::Watch(PyObject* tensor, std::int32_t call, Kind kind) {
  const std::uint64_t generation = generation_;
  PyObject* node = api_->PyObject_GetAttr(tensor, grad_fn_);
  PyObject* handle = nullptr;
  if (node != nullptr && node != api_->_Py_NoneStruct) {
    PyObject* hook = HookFor(call, kind);
    if (hook != nullptr) handle = api_->PyObject_CallMethodObjArgs(node, register_prehook_, hook, nullptr);
  }
  if (node != nullptr) api_->Py_DecRef(node);
  if (handle == nullptr) {
    api_->PyErr_Clear();
    return false;
  }
  // A tensor that was returned as it came has the same node still, unless it was changed in place.
  const auto known = watched_.find(tensor);
  const bool twice = known != watched_.end() && SameNode(handle, handles_[known->second]);
  if (twice || generation_ != generation) {
    (void)Remove(handle);
    api_->Py_DecRef(handle);
    return false;
  }
  watched_[tensor] = handles_.size();
  handles_.push_back(handle);
  return true;
}

// torch.utils.hooks.RemovableHandle refers to the node's hooks weakly.
bool TorchTracer::SameNode(PyObject* handle, PyObject* other) const {
  PyObject* hooks[2] = {nullptr, nullptr};
  for (int i = 0; i < 2; ++i) {
    PyObject* reference = api_->PyObject_GetAttrString(i == 0 ? handle : other, "hooks_dict_ref");
    if (reference != nullptr) {
      hooks[i] = Ask(reference);
      api_->Py_DecRef(reference);
    }
    api_->PyErr_Clear();
  }
  const bool same = hooks[0] != nullptr && hooks[0] == hooks[1];
  for (PyObject* object : hooks) {
    if (object != nullptr) api_->Py_DecRef(object);
  }
  return same;
}

PyObject* TorchTracer::HookFor(std::int32_t call, Kind kind) {
  const std::size_t place = static_cast<std::size_t>(call) * 2 + (kind == Kind::kBegin ? 0 : 1);
  while (hooks_.size() <= place) {
    PyObject* hook = MakeFunction(*api_, &on_node, reinterpret_cast<void*>(hooks_.size() + 1));
    if (hook == nullptr) return nullptr;
    hooks_.push_back(hook);
  }
  return hooks_[place];
}

bool TorchTracer::Remove(PyObject* handle) const {
  PyObject* remove = api_->PyObject_GetAttrString(handle, "remove");
  PyObject* done = Ask(remove);
  api_->PyErr_Clear();
  if (remove != nullptr) api_->Py_DecRef(remove);
  if (done != nullptr) api_->Py_DecRef(done);
  return done != nullptr;
}

void TorchTracer::RemoveHandles() {
  watched_.clear();
  last_output_ = {};
  for (std::vector<PyObject*>* handles : {&handles_, &old_handles_}) {
    for (PyObject* handle : std::exchange(*handles, {})) {
      (void)Remove(handle);
      api_->Py_DecRef(handle);
    }
  }
}

void TorchTracer::PutHandlesAside() {
  watched_.clear();
  last_output_ = {};
  const std::vector<PyObject*> gone = std::exchange(old_handles_, std::exchange(handles_, {}));
  for (PyObject* handle : gone) api_->Py_DecRef(handle);
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
  sampled_.moments.push_back({kind, call, MonotonicNs()});
  sampled_.moment_events.push_back(event);
}

}  // namespace probing::pyapi
