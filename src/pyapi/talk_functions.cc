#include "pyapi/talk_functions.h"

#include <array>

#include "base/clock.h"
#include "pyapi/debugger_lease.h"
#include "pyapi/functions.h"
#include "pyapi/native.h"
#include "pyapi/output.h"

namespace probing::pyapi {
namespace {

constexpr int kFirstWithLiveLocals = 313;  // f_locals writes through
constexpr int kLastWithTracingByThread = 311;

const PythonApi* python = nullptr;
char no_data;  // a capsule wants some address

PyObject* NewReference(PyObject* object) {
  python->Py_IncRef(object);
  return object;
}
PyObject* None() { return NewReference(python->_Py_NoneStruct); }
PyObject* Bool(bool value) { return NewReference(value ? python->_Py_TrueStruct : python->_Py_FalseStruct); }

// Refreshing the dict, changing it and writing it back is one step for the job: nothing in between lets
// the GIL go, so no newer value of another variable is overwritten.
PyObject* StoreLocal(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 3) return Bool(false);
  PyObject* frame = python->PyTuple_GetItem(arguments, 0);
  const bool writes_through = python->VersionNumber() >= kFirstWithLiveLocals;
  if (!writes_through && python->PyFrame_LocalsToFast == nullptr) return Bool(false);
  PyObject* locals = python->PyObject_GetAttrString(frame, "f_locals");
  if (locals == nullptr) return nullptr;
  const int failed = python->PyObject_SetItem(locals, python->PyTuple_GetItem(arguments, 1),
                                              python->PyTuple_GetItem(arguments, 2));
  python->Py_DecRef(locals);
  if (failed != 0) return nullptr;
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
  PyObject* settrace = FindSetTrace();
  if (settrace == nullptr) return nullptr;
  bool done = false;
  PyThreadState* state = python->PyInterpreterState_ThreadHead(python->PyInterpreterState_Main());
  for (; state != nullptr && !done; state = python->PyThreadState_Next(state)) {
    PyThreadState* own = python->PyThreadState_Swap(state);
    if (python->PyEval_GetFrame() == frame) {
      PyObject* set =
          python->PyObject_CallFunctionObjArgs(settrace, python->PyTuple_GetItem(arguments, 1), nullptr);
      done = set != nullptr;
      if (set != nullptr) python->Py_DecRef(set);
      python->PyErr_Clear();
    }
    python->PyThreadState_Swap(own);
  }
  python->Py_DecRef(settrace);
  return Bool(done);
}

// ── lines ──

struct Slot {
  const PyObject* code = nullptr;
  long long line = 0;
  std::int64_t period_ns = 0;  // 0: every time
  std::int64_t next_ns = 0;
};
std::array<Slot, 64> slots;
std::size_t used_slots = 0;  // those above were never used
PyObject* gate_callback = nullptr;
PyObject* gate_disable = nullptr;

// A hot path: called for every execution of a watched line. Lines of a watched function that nobody
// asked about are switched off by the answer and cost nothing from then on.
PyObject* LineGate(PyObject*, PyObject* const* values, std::ptrdiff_t count) {
  if (count < 2 || gate_callback == nullptr) return None();
  int overflow = 0;
  const long long line = python->PyLong_AsLongLongAndOverflow(values[1], &overflow);
  bool wanted = false;
  for (std::size_t i = 0; i < used_slots; ++i) {
    Slot& slot = slots[i];
    if (slot.code != values[0] || slot.line != line) continue;
    wanted = true;
    if (slot.period_ns != 0) {
      const std::int64_t now_ns = MonotonicNs();
      if (now_ns < slot.next_ns) continue;
      slot.next_ns = now_ns + slot.period_ns;
    }
    PyObject* number = python->PyLong_FromLongLong(static_cast<long long>(i));
    PyObject* answer =
        python->PyObject_CallFunctionObjArgs(gate_callback, values[0], values[1], number, nullptr);
    python->Py_DecRef(number);
    if (answer == nullptr) {
      python->PyErr_Clear();  // nothing of ours reaches the job
    } else {
      python->Py_DecRef(answer);
    }
  }
  return wanted ? None() : NewReference(gate_disable);
}
PyMethodDef line_gate{"line_gate", reinterpret_cast<void*>(&LineGate), kMethFastcall,
                      "of Probing: log points"};

PyObject* MakeLineGate(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 2) return None();
  for (PyObject* old : {gate_callback, gate_disable}) {
    if (old != nullptr) python->Py_DecRef(old);
  }
  gate_callback = gate_disable = nullptr;
  if (python->PyTuple_GetItem(arguments, 0) == python->_Py_NoneStruct) return None();
  gate_callback = NewReference(python->PyTuple_GetItem(arguments, 0));
  gate_disable = NewReference(python->PyTuple_GetItem(arguments, 1));
  return MakeFunction(*python, &line_gate, &no_data);
}

long long Number(PyObject* tuple, std::ptrdiff_t index) {
  int overflow = 0;
  return python->PyLong_AsLongLongAndOverflow(python->PyTuple_GetItem(tuple, index), &overflow);
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
    PyMethodDef{"gate_slot", reinterpret_cast<void*>(&GateSlot), kMethVarargs, "of Probing"},
    PyMethodDef{"lease_age_ms", reinterpret_cast<void*>(&LeaseAge), kMethNoargs, "of Probing"},
    PyMethodDef{"note_stop", reinterpret_cast<void*>(&NoteStop), kMethNoargs, "of Probing"},
};

}  // namespace

bool AddTalkFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  if (!AddNativeFunctions(api, dict)) return false;
  for (PyMethodDef& method : methods) {
    if (!AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

}  // namespace probing::pyapi
