#include "console/talk_functions.h"

#include <array>
#include <utility>

#include "base/clock.h"
#include "console/debugger_lease.h"
#include "console/output.h"
#include "hooks/native.h"
#include "pyapi/functions.h"
#include "pyapi/ref.h"

namespace probing::console {

using pyapi::kMethNoargs;
using pyapi::kMethVarargs;
using pyapi::NewRef;
using pyapi::PyMethodDef;
using pyapi::Ref;

namespace {

constexpr int kFirstWithLiveLocals = 313;  // f_locals writes through
constexpr int kLastWithTracingByThread = 311;

const PythonApi* python = nullptr;
char no_data;  // a capsule wants some address

PyObject* None() { return pyapi::NewNone(*python); }
PyObject* Bool(bool value) { return pyapi::NewBool(*python, value); }

// Refreshing the dict, changing it and writing it back is one step for the job: nothing in between lets
// the GIL go, so no newer value of another variable is overwritten.
PyObject* StoreLocal(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 3) return Bool(false);
  PyObject* frame = python->PyTuple_GetItem(arguments, 0);
  const bool writes_through = python->VersionNumber() >= kFirstWithLiveLocals;
  if (!writes_through && python->PyFrame_LocalsToFast == nullptr) return Bool(false);
  {
    const Ref locals = Ref::New(*python, python->PyObject_GetAttrString(frame, "f_locals"));
    if (!locals || python->PyObject_SetItem(locals.get(), python->PyTuple_GetItem(arguments, 1),
                                            python->PyTuple_GetItem(arguments, 2)) != 0)
      return nullptr;
  }
  if (!writes_through) python->PyFrame_LocalsToFast(frame, 0);
  return Bool(true);
}

PyObject* FindSetTrace() {
  PyObject* sys = python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "sys");
  return sys == nullptr ? nullptr : python->PyObject_GetAttrString(sys, "settrace");
}

// We have the GIL and stand in for the other thread while a single C function runs.
PyObject* TraceThread(PyObject*, PyObject* arguments) {
  const bool possible = python->VersionNumber() <= kLastWithTracingByThread &&
                        python->PyInterpreterState_Main != nullptr && python->PyThreadState_Swap != nullptr &&
                        python->PyInterpreterState_ThreadHead != nullptr &&
                        python->PyThreadState_Next != nullptr && python->PyEval_GetFrame != nullptr;
  if (!possible || python->PyTuple_Size(arguments) != 2) return Bool(false);
  PyObject* frame = python->PyTuple_GetItem(arguments, 0);
  const Ref settrace = Ref::New(*python, FindSetTrace());
  if (!settrace) return nullptr;
  bool done = false;
  pyapi::PyThreadState* state = python->PyInterpreterState_ThreadHead(python->PyInterpreterState_Main());
  for (; state != nullptr && !done; state = python->PyThreadState_Next(state)) {
    pyapi::PyThreadState* own = python->PyThreadState_Swap(state);
    if (python->PyEval_GetFrame() == frame) {
      PyObject* function = python->PyTuple_GetItem(arguments, 1);
      const Ref set =
          Ref::New(*python, python->PyObject_CallFunctionObjArgs(settrace.get(), function, nullptr));
      done = static_cast<bool>(set);
      python->PyErr_Clear();
    }
    python->PyThreadState_Swap(own);
  }
  return Bool(done);
}

// ── lines ──

// What decides on a hot path whether a point is due. One for each point, by its number.
struct Slot {
  const PyObject* code = nullptr;
  long long line = 0;
  std::int64_t period_ns = 0;  // 0: every time
  std::int64_t next_ns = 0;
};
std::array<Slot, 64> slots;
std::size_t used_slots = 0;  // those above were never used
PyObject* when_due = nullptr;
PyObject* disable_line = nullptr;

void CallWhenDue(Slot& slot) {
  if (when_due == nullptr) return;
  if (slot.period_ns != 0) {
    const std::int64_t now_ns = MonotonicNs();
    if (now_ns < slot.next_ns) return;
    slot.next_ns = now_ns + slot.period_ns;
  }
  const Ref function = Ref::Borrowed(*python, when_due);  // the point may be removed meanwhile
  const Ref number = Ref::New(*python, python->PyLong_FromLongLong(&slot - slots.data()));
  const Ref answer =
      Ref::New(*python, python->PyObject_CallFunctionObjArgs(function.get(), number.get(), nullptr));
  if (!answer) python->PyErr_Clear();  // nothing of ours reaches the job
}

// From Python 3.12 on: called for every execution of a watched line. Lines of a watched function that
// nobody asked about are switched off by the answer and cost nothing from then on.
PyObject* LineGate(PyObject*, PyObject* const* values, std::ptrdiff_t count) {
  if (count < 2) return None();
  int overflow = 0;
  const long long line = python->PyLong_AsLongLongAndOverflow(values[1], &overflow);
  bool wanted = false;
  for (std::size_t i = 0; i < used_slots; ++i) {
    Slot& slot = slots[i];
    if (slot.code != values[0] || slot.line != line) continue;
    wanted = true;
    CallWhenDue(slot);
  }
  return wanted || disable_line == nullptr ? None() : NewRef(*python, disable_line);
}
PyMethodDef line_gate{"line_gate", reinterpret_cast<void*>(&LineGate), pyapi::kMethFastcall,
                      "of Probing: log points"};

PyObject* MakeLineGate(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 1) return None();
  const Ref old =
      Ref::New(*python, std::exchange(disable_line, NewRef(*python, python->PyTuple_GetItem(arguments, 0))));
  return pyapi::MakeFunction(*python, &line_gate, &no_data);
}

// Before 3.12: stands in the code at the line.
PyObject* HitGate(PyObject* self, PyObject*) {
  CallWhenDue(*static_cast<Slot*>(pyapi::FunctionData(*python, self)));
  return None();
}
PyMethodDef hit_gate{"hit_gate", reinterpret_cast<void*>(&HitGate), kMethNoargs, "of Probing: log points"};

long long Number(PyObject* tuple, std::ptrdiff_t index) {
  int overflow = 0;
  return python->PyLong_AsLongLongAndOverflow(python->PyTuple_GetItem(tuple, index), &overflow);
}

PyObject* MakeHitGate(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 1) return None();
  const auto index = static_cast<std::size_t>(Number(arguments, 0));
  return index < slots.size() ? pyapi::MakeFunction(*python, &hit_gate, &slots[index]) : None();
}

PyObject* SetWhenDue(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 1) return None();
  const Ref old = Ref::New(*python, std::exchange(when_due, nullptr));
  PyObject* function = python->PyTuple_GetItem(arguments, 0);
  if (function != python->_Py_NoneStruct) when_due = NewRef(*python, function);
  return None();
}

// The caller keeps the code object alive for as long as its slot is open.
PyObject* GateSlot(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 4) return Bool(false);
  const auto index = static_cast<std::size_t>(Number(arguments, 0));
  if (index >= slots.size()) return Bool(false);
  PyObject* code = python->PyTuple_GetItem(arguments, 1);
  slots[index] =
      code == python->_Py_NoneStruct ? Slot{} : Slot{code, Number(arguments, 2), Number(arguments, 3), 0};
  if (index >= used_slots) used_slots = index + 1;
  return Bool(true);
}

PyObject* LeaseAge(PyObject*, PyObject*) {
  return python->PyLong_FromLongLong(static_cast<long long>(DebuggerLease::AgeSeconds() * 1000));
}

PyObject* NoteStop(PyObject*, PyObject*) {
  DebuggerLease::NoteStop();
  return None();
}

// emit(is_error, bytes): what evaluated code prints, for the client that waits for it.
PyObject* Emit(PyObject*, PyObject* arguments) {
  char* text = nullptr;
  std::ptrdiff_t size = 0;
  if (python->PyTuple_Size(arguments) != 2 ||
      python->PyBytes_AsStringAndSize(python->PyTuple_GetItem(arguments, 1), &text, &size) != 0) {
    python->PyErr_Clear();
    return None();
  }
  const auto stream = Number(arguments, 0) != 0 ? Output::Stream::kErr : Output::Stream::kOut;
  Output::Append(stream, {text, static_cast<std::size_t>(size)});
  return None();
}

std::array methods{
    PyMethodDef{"emit", reinterpret_cast<void*>(&Emit), kMethVarargs, "of Probing"},
    PyMethodDef{"store_local", reinterpret_cast<void*>(&StoreLocal), kMethVarargs, "of Probing"},
    PyMethodDef{"trace_thread", reinterpret_cast<void*>(&TraceThread), kMethVarargs, "of Probing"},
    PyMethodDef{"make_line_gate", reinterpret_cast<void*>(&MakeLineGate), kMethVarargs, "of Probing"},
    PyMethodDef{"make_hit_gate", reinterpret_cast<void*>(&MakeHitGate), kMethVarargs, "of Probing"},
    PyMethodDef{"set_when_due", reinterpret_cast<void*>(&SetWhenDue), kMethVarargs, "of Probing"},
    PyMethodDef{"gate_slot", reinterpret_cast<void*>(&GateSlot), kMethVarargs, "of Probing"},
    PyMethodDef{"lease_age_ms", reinterpret_cast<void*>(&LeaseAge), kMethNoargs, "of Probing"},
    PyMethodDef{"note_stop", reinterpret_cast<void*>(&NoteStop), kMethNoargs, "of Probing"},
};

}  // namespace

bool AddTalkFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  if (!hooks::AddNativeFunctions(api, dict)) return false;
  for (PyMethodDef& method : methods) {
    if (!pyapi::AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

}  // namespace probing::console
