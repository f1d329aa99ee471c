#include "torch/nodes.h"

#include <utility>

#include "pyapi/functions.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::PyMethodDef;

namespace {

using Kind = BackwardMoment::Kind;

enum Name { kGradFn, kSequence, kBackwardHooks, kRegisterDict, kRegisterPrehook, kNames };
constexpr const char* kNameTexts[kNames] = {"grad_fn", "_sequence_nr", "_backward_hooks",
                                            "_register_hook_dict", "register_prehook"};

// hook(gradients) -> None: autograd comes to the node of a tensor. `self` says which.
PyObject* OnNode(PyObject* self, PyObject* const*, std::ptrdiff_t) {
  const PythonApi& api = *pyapi::FindPython();
  const auto data = reinterpret_cast<std::uintptr_t>(pyapi::FunctionData(api, self)) - 1;
  TheTorchTracer().OnMoment(data % 2 == 0 ? Kind::kBegin : Kind::kEnd, static_cast<std::int32_t>(data / 2));
  api.Py_IncRef(api._Py_NoneStruct);
  return api._Py_NoneStruct;
}

PyMethodDef on_node{"on_node", reinterpret_cast<void*>(&OnNode), pyapi::kMethFastcall,
                    "of Probing: a module's backward begins or ends"};

}  // namespace

void TorchNodes::Use(const PythonApi& api, PyObject* carrier, const std::uint64_t* generation) {
  static_assert(std::size(kNameTexts) == sizeof(names_) / sizeof(names_[0]));
  api_ = &api;
  carrier_ = carrier;
  generation_ = generation;
  for (int i = 0; i < kNames; ++i) names_[i] = api.PyUnicode_InternFromString(kNameTexts[i]);
}

void TorchNodes::Clear(std::vector<PyObject*>* gone) {
  if (api_ == nullptr) return;
  carrier_ = nullptr;
  watched_.clear();
  for (std::vector<PyObject*>* handles : {&handles_, &old_handles_}) {
    for (PyObject* handle : std::exchange(*handles, {})) {
      Remove(handle);
      gone->push_back(handle);
    }
  }
  for (const Hook& hook : std::exchange(hooks_, {})) {
    if (hook.dict != nullptr) api_->PyDict_Clear(hook.dict);
    if (hook.dict != nullptr) gone->push_back(hook.dict);
    gone->push_back(hook.function);
  }
  for (PyObject*& name : names_) {
    if (name != nullptr) gone->push_back(std::exchange(name, nullptr));
  }
}

bool TorchNodes::Watch(PyObject* tensor, std::int32_t call, Kind kind) {
  const std::uint64_t generation = *generation_;
  PyObject* node = api_->PyObject_GetAttr(tensor, names_[kGradFn]);
  if (node == nullptr) api_->PyErr_Clear();
  if (node == nullptr || node == api_->_Py_NoneStruct) {
    if (node != nullptr) api_->Py_DecRef(node);
    return false;
  }
  // What is made may have the collector run, and with it code of the job; afterwards everything may be over.
  const bool made = *generation_ == generation && MakeHooks(call) && *generation_ == generation;
  const bool watched = made && WatchNode(tensor, node, hooks_[Place(call, kind)]);
  api_->Py_DecRef(node);
  return watched;
}

bool TorchNodes::WatchNode(PyObject* tensor, PyObject* node, const Hook hook) {
  const std::uint64_t generation = *generation_;
  const auto found = watched_.find(tensor);
  const Watched* known = found == watched_.end() ? nullptr : &found->second;
  Watched now{.sequence = carrier_ == nullptr ? 0 : SequenceOf(node)};
  // A tensor that was returned as it came has the same node still, unless it was changed in place.
  if (known != nullptr && carrier_ != nullptr && known->sequence == now.sequence) return false;
  if (!HangIn(node, hook, &now.handle)) return false;
  if (now.handle != nullptr) {
    const bool over = *generation_ != generation;
    if (over || (known != nullptr && SameNode(now.handle, known->handle)) || *generation_ != generation) {
      Remove(now.handle);
      api_->Py_DecRef(now.handle);
      return false;
    }
    handles_.push_back(now.handle);
  }
  watched_[tensor] = now;
  return true;
}

// False, without an exception, when it cannot be. A handle is a new reference.
bool TorchNodes::HangIn(PyObject* node, const Hook& hook, PyObject** handle) {
  if (carrier_ != nullptr) {
    PyObject* done = nullptr;
    if (api_->PyObject_SetAttr(carrier_, names_[kBackwardHooks], hook.dict) == 0) {
      done = api_->PyObject_CallMethodObjArgs(node, names_[kRegisterDict], carrier_, nullptr);
    }
    if (done != nullptr) {
      api_->Py_DecRef(done);
      return true;
    }
    api_->PyErr_Clear();
    carrier_ = nullptr;  // a torch that does it otherwise
  }
  *handle = api_->PyObject_CallMethodObjArgs(node, names_[kRegisterPrehook], hook.function, nullptr);
  if (*handle == nullptr) api_->PyErr_Clear();
  return *handle != nullptr;
}

// Grows with every node that is made.
std::int64_t TorchNodes::SequenceOf(PyObject* node) {
  PyObject* number = api_->PyObject_CallMethodObjArgs(node, names_[kSequence], nullptr);
  int overflow = 0;
  const std::int64_t sequence = number == nullptr ? 0 : api_->PyLong_AsLongLongAndOverflow(number, &overflow);
  if (number == nullptr) carrier_ = nullptr;  // a torch that does it otherwise
  if (number != nullptr) api_->Py_DecRef(number);
  api_->PyErr_Clear();
  return sequence;
}

// torch.utils.hooks.RemovableHandle refers to the node's hooks weakly.
bool TorchNodes::SameNode(PyObject* handle, PyObject* other) const {
  if (other == nullptr) return false;
  PyObject* hooks[2] = {nullptr, nullptr};
  for (int i = 0; i < 2; ++i) {
    PyObject* reference = api_->PyObject_GetAttrString(i == 0 ? handle : other, "hooks_dict_ref");
    if (reference != nullptr) {
      hooks[i] = api_->PyObject_CallFunctionObjArgs(reference, nullptr);
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

// Those of all calls up to this one.
bool TorchNodes::MakeHooks(std::int32_t call) {
  const std::uint64_t generation = *generation_;
  while (hooks_.size() <= Place(call, Kind::kEnd)) {
    Hook hook;
    hook.function = pyapi::MakeFunction(*api_, &on_node, reinterpret_cast<void*>(hooks_.size() + 1));
    hook.dict = api_->PyDict_New();
    if (hook.function != nullptr && hook.dict != nullptr && *generation_ == generation &&
        api_->PyDict_SetItemString(hook.dict, "probing", hook.function) == 0) {
      hooks_.push_back(hook);
      continue;
    }
    api_->PyErr_Clear();
    if (hook.function != nullptr) api_->Py_DecRef(hook.function);
    if (hook.dict != nullptr) api_->Py_DecRef(hook.dict);
    return false;
  }
  return true;
}

void TorchNodes::Remove(PyObject* handle) const {
  PyObject* remove = api_->PyObject_GetAttrString(handle, "remove");
  PyObject* done = remove == nullptr ? nullptr : api_->PyObject_CallFunctionObjArgs(remove, nullptr);
  api_->PyErr_Clear();
  if (remove != nullptr) api_->Py_DecRef(remove);
  if (done != nullptr) api_->Py_DecRef(done);
}

void TorchNodes::StepEnded() {
  watched_.clear();
  const std::vector<PyObject*> gone = std::exchange(old_handles_, std::exchange(handles_, {}));
  for (PyObject* handle : gone) api_->Py_DecRef(handle);
}

}  // namespace probing::torch
