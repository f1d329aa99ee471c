#include "torch/nodes.h"

#include <utility>

#include "pyapi/functions.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::PyMethodDef;
using pyapi::Ref;

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
  return pyapi::NewNone(api);
}

PyMethodDef on_node{"on_node", reinterpret_cast<void*>(&OnNode), pyapi::kMethFastcall,
                    "of Probing: a module's backward begins or ends"};

}  // namespace

void TorchNodes::Use(const PythonApi& api, PyObject* carrier, const std::uint64_t* generation) {
  static_assert(std::size(kNameTexts) == sizeof(names_) / sizeof(names_[0]));
  api_ = &api;
  carrier_ = carrier;
  generation_ = generation;
  for (int i = 0; i < kNames; ++i) names_[i] = Ref::New(api, api.PyUnicode_InternFromString(kNameTexts[i]));
}

void TorchNodes::Clear(std::vector<Ref>* gone) {
  if (api_ == nullptr) return;
  carrier_ = nullptr;
  watched_.clear();
  for (std::vector<Ref>* handles : {&handles_, &old_handles_}) {
    for (Ref& handle : std::exchange(*handles, {})) {
      Remove(handle.get());
      gone->push_back(std::move(handle));
    }
  }
  for (Hook& hook : std::exchange(hooks_, {})) {
    if (hook.dict) api_->PyDict_Clear(hook.dict.get());
    gone->push_back(std::move(hook.dict));
    gone->push_back(std::move(hook.function));
  }
  for (Ref& name : names_) gone->push_back(std::move(name));
}

bool TorchNodes::Watch(PyObject* tensor, std::int32_t call, Kind kind) {
  const std::uint64_t generation = *generation_;
  const Ref node = Ref::New(*api_, api_->PyObject_GetAttr(tensor, names_[kGradFn].get()));
  if (!node) api_->PyErr_Clear();
  if (!node || node.get() == api_->_Py_NoneStruct) return false;
  // What is made may have the collector run, and with it code of the job; afterwards everything may be over.
  const bool made = *generation_ == generation && MakeHooks(call) && *generation_ == generation;
  if (!made) return false;
  // References of its own: what is called may end the tracing.
  const Hook& known = hooks_[Place(call, kind)];
  const Hook hook{Ref::Borrowed(*api_, known.function.get()), Ref::Borrowed(*api_, known.dict.get())};
  return WatchNode(tensor, node.get(), hook);
}

bool TorchNodes::WatchNode(PyObject* tensor, PyObject* node, const Hook& hook) {
  const std::uint64_t generation = *generation_;
  const auto found = watched_.find(tensor);
  const Watched* known = found == watched_.end() ? nullptr : &found->second;
  Watched now{.sequence = carrier_ == nullptr ? 0 : SequenceOf(node)};
  // A tensor that was returned as it came has the same node still, unless it was changed in place.
  if (known != nullptr && carrier_ != nullptr && known->sequence == now.sequence) return false;
  Ref handle;
  if (!HangIn(node, hook, &handle)) return false;
  if (handle) {
    const bool over = *generation_ != generation;
    if (over || (known != nullptr && SameNode(handle.get(), known->handle)) || *generation_ != generation) {
      Remove(handle.get());
      return false;
    }
    now.handle = handle.get();
    handles_.push_back(std::move(handle));
  }
  watched_[tensor] = now;
  return true;
}

// False, without an exception, when it cannot be.
bool TorchNodes::HangIn(PyObject* node, const Hook& hook, Ref* handle) {
  if (carrier_ != nullptr) {
    Ref done;
    if (api_->PyObject_SetAttr(carrier_, names_[kBackwardHooks].get(), hook.dict.get()) == 0) {
      done = Ref::New(*api_,
                      api_->PyObject_CallMethodObjArgs(node, names_[kRegisterDict].get(), carrier_, nullptr));
    }
    if (done) return true;
    api_->PyErr_Clear();
    carrier_ = nullptr;  // a torch that does it otherwise
  }
  *handle = Ref::New(*api_, api_->PyObject_CallMethodObjArgs(node, names_[kRegisterPrehook].get(),
                                                             hook.function.get(), nullptr));
  if (!*handle) api_->PyErr_Clear();
  return static_cast<bool>(*handle);
}

// Grows with every node that is made.
std::int64_t TorchNodes::SequenceOf(PyObject* node) {
  const Ref number =
      Ref::New(*api_, api_->PyObject_CallMethodObjArgs(node, names_[kSequence].get(), nullptr));
  int overflow = 0;
  const std::int64_t sequence = number ? api_->PyLong_AsLongLongAndOverflow(number.get(), &overflow) : 0;
  if (!number) carrier_ = nullptr;  // a torch that does it otherwise
  api_->PyErr_Clear();
  return sequence;
}

// torch.utils.hooks.RemovableHandle refers to the node's hooks weakly.
bool TorchNodes::SameNode(PyObject* handle, PyObject* other) const {
  if (other == nullptr) return false;
  const auto hooks_of = [&](PyObject* of) {
    const Ref weak = Ref::New(*api_, api_->PyObject_GetAttrString(of, "hooks_dict_ref"));
    Ref hooks = Ref::New(*api_, weak ? api_->PyObject_CallFunctionObjArgs(weak.get(), nullptr) : nullptr);
    api_->PyErr_Clear();
    return hooks;
  };
  const Ref one = hooks_of(handle);
  const Ref two = hooks_of(other);
  return one && one.get() == two.get();
}

// Those of all calls up to this one.
bool TorchNodes::MakeHooks(std::int32_t call) {
  const std::uint64_t generation = *generation_;
  while (hooks_.size() <= Place(call, Kind::kEnd)) {
    Hook hook;
    hook.function =
        Ref::New(*api_, pyapi::MakeFunction(*api_, &on_node, reinterpret_cast<void*>(hooks_.size() + 1)));
    hook.dict = Ref::New(*api_, api_->PyDict_New());
    if (hook.function && hook.dict && *generation_ == generation &&
        api_->PyDict_SetItemString(hook.dict.get(), "probing", hook.function.get()) == 0) {
      hooks_.push_back(std::move(hook));
      continue;
    }
    api_->PyErr_Clear();
    return false;
  }
  return true;
}

void TorchNodes::Remove(PyObject* handle) const {
  const Ref remove = Ref::New(*api_, api_->PyObject_GetAttrString(handle, "remove"));
  const Ref done =
      Ref::New(*api_, remove ? api_->PyObject_CallFunctionObjArgs(remove.get(), nullptr) : nullptr);
  api_->PyErr_Clear();
}

void TorchNodes::StepEnded() {
  watched_.clear();
  const std::vector<Ref> gone = std::exchange(old_handles_, std::exchange(handles_, {}));
}

}  // namespace probing::torch
