#include "console/still.h"

#include <pthread.h>

#include <array>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "console/numbers.h"
#include "pyapi/functions.h"
#include "pyapi/ref.h"

namespace probing::console {

using pyapi::kMethVarargs;
using pyapi::NewRef;
using pyapi::PyMethodDef;
using pyapi::Ref;

namespace {

const PythonApi* python = nullptr;
char no_data;

constexpr int kMostFrames = 2000;            // of one thread; a deeper one counts as unfit
constexpr std::int64_t kHoldNs = 2'000'000;  // for numbers, in one call
constexpr std::int64_t kNumbersBetweenClocks = 1 << 15;
constexpr std::size_t kMostDimensions = 64;

// ── is the moment fit ──

// A collection runs code of the job's, which may let the GIL go, and before 3.12 making an object may begin
// one. Nobody sees that it was off for a moment: we have the GIL all the time.
class NoCollection {
 public:
  NoCollection() {
    if (python->VersionNumber() >= 312) return;
    PyObject* gc = python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "gc");
    if (gc == nullptr) return;
    const Ref is_on = Ref::New(*python, Call(gc, "isenabled"));
    if (is_on.get() != python->_Py_TrueStruct) return;
    const Ref done = Ref::New(*python, Call(gc, "disable"));
    gc_ = done ? gc : nullptr;
  }
  ~NoCollection() {
    if (gc_ == nullptr) return;
    const Ref done = Ref::New(*python, Call(gc_, "enable"));
    if (!done) python->PyErr_Clear();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  static PyObject* Call(PyObject* module, const char* name) {
    const Ref function = Ref::New(*python, python->PyObject_GetAttrString(module, name));
    return function ? python->PyObject_CallObject(function.get(), nullptr) : nullptr;
  }
  PyObject* gc_ = nullptr;  // borrowed: modules stay
};

// Names as the compiler has them in co_names: one object for one text.
class Names {
 public:
  template <std::size_t kCount>
  explicit Names(const std::array<const char*, kCount>& texts) {
    for (const char* text : texts)
      names_.push_back(Ref::New(*python, python->PyUnicode_InternFromString(text)));
  }

  bool HasOneOf(PyObject* tuple) const {
    const std::ptrdiff_t count = python->PyTuple_Size(tuple);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      PyObject* name = python->PyTuple_GetItem(tuple, i);
      for (const Ref& known : names_) {
        if (name == known.get() && name != nullptr) return true;
      }
    }
    return false;
  }

 private:
  std::vector<Ref> names_;
};

// Functions that mention these are the ones that begin a backward pass: torch's own _engine_run_backward, in
// older ones torch.autograd.backward and grad. Anywhere on the stack, since a pass may call Python code.
constexpr std::array kBeginBackward{"run_backward"};
// These replace what a tensor consists of. Only where the innermost function mentions them: it may be in it.
constexpr std::array kChangeTensors{"resize_", "resize_as_", "set_", "swap_tensors", "_resize_storage_"};

// And these may be in the middle of `p.grad = None`: torch frees the old gradient, for which it lets the GIL
// go, before it forgets where that was. The same, of the innermost function.
constexpr std::array kReplaceGradients{"grad", "_grad"};

class Frames {
 public:
  Frames()
      : back_(Ref::New(*python, python->PyUnicode_InternFromString("f_back"))),
        code_(Ref::New(*python, python->PyUnicode_InternFromString("f_code"))),
        names_(Ref::New(*python, python->PyUnicode_InternFromString("co_names"))),
        begin_backward_(kBeginBackward),
        change_tensors_(kChangeTensors),
        replace_gradients_(kReplaceGradients) {}

  // Whether no thread but this one is in code that changes tensors. False also when that is not known.
  bool AreFit(bool gradients) {
    return All([&](PyObject* innermost) { return IsFit(innermost, gradients); });
  }

  // Whether no thread but this one is in a function that mentions the name. False also when that is not
  // known.
  bool AreOutside(PyObject* name) {
    return All([&](PyObject* innermost) { return IsOutside(innermost, name); });
  }

 private:
  template <typename IsGood>
  bool All(const IsGood& is_good) {
    const Ref frames = Ref::New(*python, Current());
    const Ref pairs = Ref::New(*python, frames ? ItemsOf(frames.get()) : nullptr);
    if (!pairs) {
      python->PyErr_Clear();
      return false;
    }
    const auto own = static_cast<long long>(pthread_self());
    for (std::ptrdiff_t i = 0; i < python->PyTuple_Size(pairs.get()); ++i) {
      PyObject* pair = python->PyTuple_GetItem(pairs.get(), i);
      int overflow = 0;
      if (python->PyLong_AsLongLongAndOverflow(python->PyTuple_GetItem(pair, 0), &overflow) == own) continue;
      if (!is_good(python->PyTuple_GetItem(pair, 1))) return false;
    }
    return true;
  }

  static PyObject* Current() {
    PyObject* sys = python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "sys");
    const Ref get =
        Ref::New(*python, sys == nullptr ? nullptr : python->PyObject_GetAttrString(sys, "_current_frames"));
    return get ? python->PyObject_CallObject(get.get(), nullptr) : nullptr;
  }
  static PyObject* ItemsOf(PyObject* dict) {
    const Ref items = Ref::New(*python, python->PyObject_GetAttrString(dict, "items"));
    const Ref view = Ref::New(*python, items ? python->PyObject_CallObject(items.get(), nullptr) : nullptr);
    return view ? python->PySequence_Tuple(view.get()) : nullptr;
  }

  // `innermost` is borrowed.
  bool IsFit(PyObject* innermost, bool gradients) {
    Ref frame = Ref::Borrowed(*python, innermost);
    bool fit = true;
    for (int depth = 0; fit && frame.get() != python->_Py_NoneStruct; ++depth) {
      const Ref code = Ref::New(*python, python->PyObject_GetAttr(frame.get(), code_.get()));
      const Ref names =
          Ref::New(*python, code ? python->PyObject_GetAttr(code.get(), names_.get()) : nullptr);
      fit = names && depth < kMostFrames;
      fit = fit && !(gradients && begin_backward_.HasOneOf(names.get()));
      fit = fit && !(depth == 0 && change_tensors_.HasOneOf(names.get()));
      fit = fit && !(depth == 0 && gradients && replace_gradients_.HasOneOf(names.get()));
      frame =
          Ref::New(*python, fit && gradients ? python->PyObject_GetAttr(frame.get(), back_.get()) : nullptr);
      if (!frame) {
        python->PyErr_Clear();
        return fit && !gradients;
      }
    }
    return fit;
  }

  // `innermost` is borrowed.
  bool IsOutside(PyObject* innermost, PyObject* name) {
    Ref frame = Ref::Borrowed(*python, innermost);
    for (int depth = 0; frame && frame.get() != python->_Py_NoneStruct; ++depth) {
      const Ref code = Ref::New(*python, python->PyObject_GetAttr(frame.get(), code_.get()));
      const Ref names =
          Ref::New(*python, code ? python->PyObject_GetAttr(code.get(), names_.get()) : nullptr);
      const std::ptrdiff_t count = names ? python->PyTuple_Size(names.get()) : -1;
      bool mentions = count < 0 || depth >= kMostFrames;
      for (std::ptrdiff_t i = 0; i < count; ++i) {
        mentions = mentions || python->PyTuple_GetItem(names.get(), i) == name;
      }
      frame = Ref::New(*python, mentions ? nullptr : python->PyObject_GetAttr(frame.get(), back_.get()));
    }
    python->PyErr_Clear();
    return static_cast<bool>(frame);
  }

  const Ref back_;
  const Ref code_;
  const Ref names_;
  const Names begin_backward_;
  const Names change_tensors_;
  const Names replace_gradients_;
};

PyObject* Owned(PyObject* object) { return NewRef(*python, object); }

PyObject* WhenStill(PyObject*, PyObject* arguments) {
  const std::ptrdiff_t count = python->PyTuple_Size(arguments);
  if (count != 3 && count != 4) {
    python->PyErr_SetString(*python->PyExc_TypeError, "when_still takes three or four arguments");
    return nullptr;
  }
  const NoCollection off;
  if (!Frames().AreFit(true)) return Owned(python->PyTuple_GetItem(arguments, 0));
  PyObject* second = count == 4 ? python->PyTuple_GetItem(arguments, 3) : nullptr;
  return python->PyObject_CallFunctionObjArgs(python->PyTuple_GetItem(arguments, 1),
                                              python->PyTuple_GetItem(arguments, 2), second, nullptr);
}

// The names of a function are interned, so that the one of the caller has to be made so.
PyObject* WhenOutside(PyObject*, PyObject* arguments) {
  const std::ptrdiff_t count = python->PyTuple_Size(arguments);
  if (count != 4 && count != 5) {
    python->PyErr_SetString(*python->PyExc_TypeError, "when_outside takes four or five arguments");
    return nullptr;
  }
  const char* text = python->PyUnicode_AsUTF8AndSize(python->PyTuple_GetItem(arguments, 1), nullptr);
  if (text == nullptr) return nullptr;
  const NoCollection off;
  const Ref name = Ref::New(*python, python->PyUnicode_InternFromString(text));
  if (!name) return nullptr;
  if (!Frames().AreOutside(name.get())) return Owned(python->PyTuple_GetItem(arguments, 0));
  PyObject* second = count == 5 ? python->PyTuple_GetItem(arguments, 4) : nullptr;
  return python->PyObject_CallFunctionObjArgs(python->PyTuple_GetItem(arguments, 2),
                                              python->PyTuple_GetItem(arguments, 3), second, nullptr);
}

// ── numbers ──

// Calls a method of a tensor that takes nothing, or nothing but what it has a default for.
PyObject* Ask(PyObject* object, const char* method) {
  const Ref function = Ref::New(*python, python->PyObject_GetAttrString(object, method));
  return function ? python->PyObject_CallObject(function.get(), nullptr) : nullptr;
}

std::optional<std::int64_t> NumberOf(PyObject* object) {
  int overflow = 0;
  const long long value = object == nullptr ? -1 : python->PyLong_AsLongLongAndOverflow(object, &overflow);
  if (object == nullptr || overflow != 0 || python->PyErr_Occurred() != nullptr) {
    python->PyErr_Clear();
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> AskNumber(PyObject* object, const char* method) {
  const Ref answer = Ref::New(*python, Ask(object, method));
  return NumberOf(answer.get());
}

std::optional<NumberType> TypeAmong(PyObject* tensor, PyObject* dtypes) {
  const Ref dtype = Ref::New(*python, python->PyObject_GetAttrString(tensor, "dtype"));
  for (std::ptrdiff_t i = 0; dtype && i < python->PyTuple_Size(dtypes); ++i) {
    if (python->PyTuple_GetItem(dtypes, i) == dtype.get()) return static_cast<NumberType>(i);
  }
  python->PyErr_Clear();
  return std::nullopt;
}

std::optional<std::vector<Dimension>> DimensionsOf(PyObject* tensor) {
  const Ref shape = Ref::New(*python, python->PyObject_GetAttrString(tensor, "shape"));
  const Ref strides = Ref::New(*python, Ask(tensor, "stride"));
  if (!shape || !strides || python->PyTuple_Size(shape.get()) != python->PyTuple_Size(strides.get()))
    return std::nullopt;
  std::vector<Dimension> dimensions;
  const std::ptrdiff_t count = python->PyTuple_Size(shape.get());
  if (count < 0 || static_cast<std::size_t>(count) > kMostDimensions) return std::nullopt;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto size = NumberOf(python->PyTuple_GetItem(shape.get(), i));
    const auto stride = NumberOf(python->PyTuple_GetItem(strides.get(), i));
    if (!size || !stride || *size < 0 || *stride < 0) return std::nullopt;
    dimensions.push_back({.size = *size, .stride = *stride});
  }
  return dimensions;
}

// The numbers of a tensor, when all of them are in memory that is there: a storage may have been made
// smaller under its tensors.
std::optional<Elements> ElementsOf(PyObject* tensor, PyObject* dtypes) {
  const Ref is_cpu = Ref::New(*python, python->PyObject_GetAttrString(tensor, "is_cpu"));
  const std::optional<NumberType> type = TypeAmong(tensor, dtypes);
  if (is_cpu.get() != python->_Py_TrueStruct || !type) return std::nullopt;
  const std::optional<std::vector<Dimension>> dimensions = DimensionsOf(tensor);
  const auto address = AskNumber(tensor, "data_ptr");
  const auto offset = AskNumber(tensor, "storage_offset");
  const Ref storage = Ref::New(*python, Ask(tensor, "untyped_storage"));
  const auto bytes = storage ? AskNumber(storage.get(), "nbytes") : std::nullopt;
  if (!dimensions || !address || !offset || !bytes) return std::nullopt;
  std::int64_t last = *offset;  // an element
  bool is_empty = false;
  for (const Dimension& one : *dimensions) {
    is_empty = is_empty || one.size == 0;
    last += (one.size - 1) * one.stride;
  }
  const auto each = static_cast<std::int64_t>(kNumberBytes[static_cast<std::size_t>(*type)]);
  if (!is_empty && (*address == 0 || *offset < 0 || last < 0 || last >= *bytes / each)) return std::nullopt;
  return Elements(reinterpret_cast<const char*>(*address), *type, *dimensions);
}

PyObject* TupleOf(std::initializer_list<PyObject*> owned) {
  const Ref list = Ref::New(*python, python->PyObject_CallFunctionObjArgs(python->PyList_Type, nullptr));
  bool good = static_cast<bool>(list);
  for (PyObject* object : owned) {
    const Ref item = Ref::New(*python, object);
    good = good && item && python->PyList_Append(list.get(), item.get()) == 0;
  }
  return good ? python->PySequence_Tuple(list.get()) : nullptr;
}

PyObject* NumbersOf(PyObject*, PyObject* arguments) {
  if (python->PyTuple_Size(arguments) != 5) {
    python->PyErr_SetString(*python->PyExc_TypeError, "numbers_of takes five arguments");
    return nullptr;
  }
  PyObject* getter = python->PyTuple_GetItem(arguments, 2);
  const bool gradient = getter != python->_Py_NoneStruct;
  const NoCollection off;
  if (!Frames().AreFit(gradient)) return Owned(python->PyTuple_GetItem(arguments, 0));
  PyObject* given = python->PyTuple_GetItem(arguments, 1);
  const Ref tensor = Ref::New(
      *python, gradient ? python->PyObject_CallFunctionObjArgs(getter, given, nullptr) : Owned(given));
  if (!tensor) return nullptr;
  if (tensor.get() == python->_Py_NoneStruct) return Owned(tensor.get());
  const std::optional<Elements> elements = ElementsOf(tensor.get(), python->PyTuple_GetItem(arguments, 3));
  if (!elements) {
    python->PyErr_Clear();
    return Owned(python->_Py_NoneStruct);
  }
  std::int64_t at = NumberOf(python->PyTuple_GetItem(arguments, 4)).value_or(0);
  NumberSums sums;
  const std::int64_t until_ns = MonotonicNs() + kHoldNs;
  while (at < elements->count()) {
    at = elements->Add(at, kNumbersBetweenClocks, sums);
    if (MonotonicNs() > until_ns) break;
  }
  return TupleOf({python->PyLong_FromLongLong(at), python->PyLong_FromLongLong(elements->count()),
                  python->PyFloat_FromDouble(sums.sum), python->PyFloat_FromDouble(sums.sum_of_squares),
                  python->PyLong_FromLongLong(sums.nonfinite), python->PyFloat_FromDouble(sums.smallest),
                  python->PyFloat_FromDouble(sums.largest), Owned(tensor.get())});
}

std::array methods{
    PyMethodDef{"when_still", reinterpret_cast<void*>(&WhenStill), kMethVarargs, nullptr},
    PyMethodDef{"when_outside", reinterpret_cast<void*>(&WhenOutside), kMethVarargs, nullptr},
    PyMethodDef{"numbers_of", reinterpret_cast<void*>(&NumbersOf), kMethVarargs, nullptr},
};

}  // namespace

bool AddStillFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  if (!api.HasGil()) return true;
  for (PyMethodDef& method : methods) {
    if (!pyapi::AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

}  // namespace probing::console
