#include "torch/gpu.h"

namespace probing::torch {

using pyapi::Ref;

void GpuClock::Use(const PythonApi& api, PyObject* new_event, PyObject* capturing) {
  api_ = &api;
  new_event_ = new_event;
  capturing_ = capturing;
  record_ = Ref::New(api, api.PyUnicode_InternFromString("record"));
  query_ = Ref::New(api, api.PyUnicode_InternFromString("query"));
  elapsed_ = Ref::New(api, api.PyUnicode_InternFromString("elapsed_time"));
}

void GpuClock::Clear() {
  const std::vector<Ref> events = std::exchange(free_, {});
  for (Ref* name : {&record_, &query_, &elapsed_}) *name = {};
  new_event_ = capturing_ = nullptr;
}

PyObject* GpuClock::Record() {
  if (new_event_ == nullptr || !record_) return nullptr;
  const Ref answer = Ref::New(
      *api_, capturing_ == nullptr ? nullptr : api_->PyObject_CallFunctionObjArgs(capturing_, nullptr));
  const bool may = answer.get() == api_->_Py_FalseStruct;
  Ref event;
  if (may && !free_.empty()) {
    event = std::move(free_.back());
    free_.pop_back();
  } else if (may) {
    event = Ref::New(*api_, api_->PyObject_CallFunctionObjArgs(new_event_, nullptr));
  }
  const Ref done = Ref::New(
      *api_, event ? api_->PyObject_CallMethodObjArgs(event.get(), record_.get(), nullptr) : nullptr);
  if (done) return event.release();
  api_->PyErr_Clear();
  return nullptr;
}

void GpuClock::GiveBack(PyObject* event) {
  Ref returned = Ref::New(*api_, event);
  if (returned && record_ && free_.size() < kMostFree) free_.push_back(std::move(returned));
}

bool GpuClock::Happened(PyObject* event) const {
  const Ref answer = Ref::New(*api_, api_->PyObject_CallMethodObjArgs(event, query_.get(), nullptr));
  if (!answer) api_->PyErr_Clear();
  return answer.get() == api_->_Py_TrueStruct;
}

double GpuClock::Milliseconds(PyObject* from, PyObject* to) const {
  const Ref answer = Ref::New(*api_, api_->PyObject_CallMethodObjArgs(from, elapsed_.get(), to, nullptr));
  const double milliseconds = answer ? api_->PyFloat_AsDouble(answer.get()) : -1;
  api_->PyErr_Clear();
  return milliseconds;
}

}  // namespace probing::torch
