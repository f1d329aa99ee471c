#include "torch/gpu.h"

namespace probing::torch {

void GpuClock::Use(const PythonApi& api, PyObject* new_event, PyObject* capturing) {
  api_ = &api;
  new_event_ = new_event;
  capturing_ = capturing;
  record_ = api.PyUnicode_InternFromString("record");
  query_ = api.PyUnicode_InternFromString("query");
  elapsed_ = api.PyUnicode_InternFromString("elapsed_time");
}

void GpuClock::Clear() {
  if (api_ == nullptr) return;
  for (PyObject* event : free_) api_->Py_DecRef(event);
  free_.clear();
  for (PyObject** name : {&record_, &query_, &elapsed_}) {
    if (*name != nullptr) api_->Py_DecRef(*name);
    *name = nullptr;
  }
  new_event_ = capturing_ = nullptr;
}

PyObject* GpuClock::Record() {
  if (new_event_ == nullptr || record_ == nullptr) return nullptr;
  PyObject* answer =
      capturing_ == nullptr ? nullptr : api_->PyObject_CallFunctionObjArgs(capturing_, nullptr);
  const bool may = answer == api_->_Py_FalseStruct;
  if (answer != nullptr) api_->Py_DecRef(answer);
  PyObject* event = nullptr;
  if (may && !free_.empty()) {
    event = free_.back();
    free_.pop_back();
  } else if (may) {
    event = api_->PyObject_CallFunctionObjArgs(new_event_, nullptr);
  }
  PyObject* done = event == nullptr ? nullptr : api_->PyObject_CallMethodObjArgs(event, record_, nullptr);
  if (done != nullptr) {
    api_->Py_DecRef(done);
    return event;
  }
  api_->PyErr_Clear();
  if (event != nullptr) api_->Py_DecRef(event);
  return nullptr;
}

void GpuClock::GiveBack(PyObject* event) {
  if (event == nullptr) return;
  if (record_ != nullptr && free_.size() < kMostFree) {
    free_.push_back(event);
  } else {
    api_->Py_DecRef(event);
  }
}

bool GpuClock::Happened(PyObject* event) const {
  PyObject* answer = api_->PyObject_CallMethodObjArgs(event, query_, nullptr);
  const bool happened = answer == api_->_Py_TrueStruct;
  if (answer == nullptr) {
    api_->PyErr_Clear();
  } else {
    api_->Py_DecRef(answer);
  }
  return happened;
}

double GpuClock::Milliseconds(PyObject* from, PyObject* to) const {
  PyObject* answer = api_->PyObject_CallMethodObjArgs(from, elapsed_, to, nullptr);
  double milliseconds = -1;
  if (answer != nullptr) {
    milliseconds = api_->PyFloat_AsDouble(answer);
    api_->Py_DecRef(answer);
  }
  api_->PyErr_Clear();
  return milliseconds;
}

}  // namespace probing::torch
