#include "pyapi/heap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "pyapi/functions.h"
#include "pyapi/gc_list.h"
#include "pyapi/ref.h"

namespace probing::pyapi {
namespace {

const PythonApi* python = nullptr;
char no_data;

constexpr int kObjectsBetweenClocks = 128;
constexpr std::size_t kMostFound = 4000;  // in one slice: handing them over takes time, too

// ── sets of addresses ──

constexpr std::size_t kFilterBits = 1U << 16;

std::size_t FilterBit(std::uintptr_t address) { return (address >> 4) % kFilterBits; }

// As bytes, which Python code keeps for us: a filter, then the sorted addresses.
class AddressSet {
 public:
  AddressSet() = default;
  AddressSet(const char* bytes, std::size_t size) {
    if (size < kFilterBits / 8) return;
    filter_ = reinterpret_cast<const unsigned char*>(bytes);
    const auto* sorted = reinterpret_cast<const std::uintptr_t*>(bytes + kFilterBits / 8);
    begin_ = sorted;
    end_ = sorted + (size - kFilterBits / 8) / sizeof(std::uintptr_t);
  }

  bool Has(const void* object) const {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    const std::size_t bit = FilterBit(address);
    if (filter_ == nullptr || (filter_[bit / 8] >> (bit % 8) & 1) == 0) return false;
    return std::binary_search(begin_, end_, address);
  }

 private:
  const unsigned char* filter_ = nullptr;
  const std::uintptr_t* begin_ = nullptr;
  const std::uintptr_t* end_ = nullptr;
};

PyObject* MakeAddressSet(PyObject*, PyObject* arguments) {
  PyObject* objects = python->PyTuple_GetItem(arguments, 0);
  if (objects == nullptr) return nullptr;
  const Ref all = Ref::New(*python, python->PySequence_Tuple(objects));
  if (!all) return nullptr;
  std::vector<std::uintptr_t> sorted;
  std::string bytes(kFilterBits / 8, '\0');
  for (std::ptrdiff_t i = 0; i < python->PyTuple_Size(all.get()); ++i) {
    PyObject* item = python->PyTuple_GetItem(all.get(), i);
    auto address = reinterpret_cast<std::uintptr_t>(item);
    if (python->TypeOf(item) == python->PyLong_Type) {
      int overflow = 0;
      address = static_cast<std::uintptr_t>(python->PyLong_AsLongLongAndOverflow(item, &overflow));
    }
    sorted.push_back(address);
    const std::size_t bit = FilterBit(address);
    bytes[bit / 8] = static_cast<char>(static_cast<unsigned char>(bytes[bit / 8]) | 1U << (bit % 8));
  }
  std::sort(sorted.begin(), sorted.end());
  bytes.append(reinterpret_cast<const char*>(sorted.data()), sorted.size() * sizeof(std::uintptr_t));
  return python->PyBytes_FromStringAndSize(bytes.data(), static_cast<std::ptrdiff_t>(bytes.size()));
}

// ── what is found ──

// One object that refers to a wanted one.
struct Referrer {
  PyObject* holder;  // ours; null for a tuple
  const void* holder_address;
  const void* wanted;
  PyObject* key;  // ours, or null
};

// Looks at one object at a time and notes what is wanted of it. Nothing here makes a Python object or runs
// Python code before all has been seen: a collection would change the lists we are in.
class Finder {
 public:
  enum class Mode : std::uint8_t { kPick, kHold, kCount, kRefer };

  Finder(Mode mode, PyObject* argument, PyObject* skipped) : mode_(mode), argument_(argument) {
    char* bytes = nullptr;
    std::ptrdiff_t size = 0;
    if (mode == Mode::kRefer && python->PyBytes_AsStringAndSize(argument, &bytes, &size) == 0)
      wanted_ = AddressSet(bytes, static_cast<std::size_t>(size));
    if (mode == Mode::kRefer && python->PyBytes_AsStringAndSize(skipped, &bytes, &size) == 0)
      skipped_ = AddressSet(bytes, static_cast<std::size_t>(size));
    python->PyErr_Clear();
  }

  void See(PyObject* object) {
    PyObject* type = python->TypeOf(object);
    switch (mode_) {
      case Mode::kPick:
      case Mode::kHold:
        if (IsWanted(type)) Keep(object);
        return;
      case Mode::kCount:
        ++counts_[type];
        return;
      case Mode::kRefer:
        if (!skipped_.Has(object)) SeeReferents(object, type);
        return;
    }
  }

  // Only "hold" is complete in one slice when that is wanted.
  bool is_full() const { return mode_ != Mode::kHold && found_.size() + referrers_.size() >= kMostFound; }

  // Puts what was found into a list and gives it back. True when all is in there.
  bool MoveInto(PyObject* list) {
    bool good = true;
    const auto append = [&](PyObject* object) {  // takes over the reference
      const Ref item = Ref::New(*python, object);
      if (!item) {
        python->PyErr_Clear();  // some objects have no weak references
      } else if (python->PyList_Append(list, item.get()) != 0) {
        good = false;
      }
    };
    for (PyObject* object : found_) {
      const Ref found = Ref::New(*python, object);
      append(mode_ == Mode::kPick ? python->PyWeakref_NewRef(object, nullptr) : Owned(object));
    }
    for (const auto& [type, count] : counts_) {
      append(Owned(type));
      append(python->PyLong_FromLongLong(count));
    }
    for (const Referrer& one : referrers_) {
      append(one.holder != nullptr ? one.holder : AddressOf(one.holder_address));
      append(AddressOf(one.wanted));
      append(one.key != nullptr ? one.key : Owned(python->_Py_NoneStruct));
    }
    return good;
  }

 private:
  static PyObject* Owned(PyObject* object) { return NewRef(*python, object); }
  static PyObject* AddressOf(const void* object) {
    return python->PyLong_FromLongLong(static_cast<long long>(reinterpret_cast<std::uintptr_t>(object)));
  }

  bool IsWanted(PyObject* type) {
    const auto [known, is_new] = classes_.try_emplace(type, false);
    for (std::ptrdiff_t i = 0; is_new && i < python->PyTuple_Size(argument_); ++i) {
      if (python->PyType_IsSubtype(type, python->PyTuple_GetItem(argument_, i)) != 0) known->second = true;
    }
    return known->second;
  }

  void Keep(PyObject* object) { found_.push_back(Owned(object)); }

  static int Visit(PyObject* referent, void* self) {
    auto& finder = *static_cast<Finder*>(self);
    if (finder.wanted_.Has(referent)) finder.hits_.push_back(referent);
    return 0;
  }

  void SeeReferents(PyObject* object, PyObject* type) {
    hits_.clear();
    Traverse(type, object, &Visit, this);
    if (hits_.empty()) return;
    const bool may_be_held = type != python->PyTuple_Type && type != python->PyFrozenSet_Type;
    const auto note = [&](const void* wanted, PyObject* key) {
      referrers_.push_back({.holder = may_be_held ? Owned(object) : nullptr,
                            .holder_address = object,
                            .wanted = wanted,
                            .key = key == nullptr ? nullptr : Owned(key)});
    };
    if (type != python->PyDict_Type) {
      for (const void* hit : hits_) note(hit, nullptr);
      return;
    }
    std::ptrdiff_t position = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (python->PyDict_Next(object, &position, &key, &value) != 0) {
      if (wanted_.Has(value)) note(value, python->TypeOf(key) == python->PyUnicode_Type ? key : nullptr);
      if (wanted_.Has(key)) note(key, nullptr);
    }
  }

  const Mode mode_;
  PyObject* const argument_;
  AddressSet wanted_;
  AddressSet skipped_;
  std::unordered_map<PyObject*, bool> classes_;  // what is known of them; asking runs no Python code
  std::unordered_map<PyObject*, long long> counts_;
  std::vector<PyObject*> found_;  // references of ours
  std::vector<const void*> hits_;
  std::vector<Referrer> referrers_;
};

// ── walks ──

class Clock {
 public:
  explicit Clock(std::int64_t hold_us) : until_ns_(MonotonicNs() + hold_us * 1000) {}
  bool IsUp() { return ++looks_ % kObjectsBetweenClocks == 0 && MonotonicNs() > until_ns_; }

 private:
  const std::int64_t until_ns_;
  int looks_ = 0;
};

// One slice. Returns whether there are more.
bool WalkSlice(const GcLists& lists, PyObject* cursor, bool begins, std::int64_t hold_us, Finder& finder) {
  Clock clock(hold_us);
  if (begins) lists.MoveToFront(cursor, GcLists::kOldest);
  while (true) {
    PyObject* object = nullptr;
    std::optional<int> ended;  // which list
    PyObject* last = nullptr;
    for (object = lists.After(cursor, &ended); !ended.has_value(); object = lists.After(object, &ended)) {
      finder.See(object);
      last = object;
      if (clock.IsUp() || finder.is_full()) break;
    }
    if (!ended.has_value()) {
      lists.MoveBehind(cursor, last);
      return true;
    }
    if (*ended == 0) return false;
    lists.MoveToFront(cursor, *ended - 1);  // a younger list
  }
}

// A list as all Pythons with a GIL have it. PySequence_GetItem() for each of some 100,000 objects would take
// as long as everything else here.
struct List {
  std::ptrdiff_t references;
  PyObject* type;
  std::ptrdiff_t size;
  PyObject** items;
};

// Where the collector's lists are not known: all at once, by a list of all.
bool WalkAtOnce(Finder& finder) {
  PyObject* gc = python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "gc");
  const Ref get =
      Ref::New(*python, gc == nullptr ? nullptr : python->PyObject_GetAttrString(gc, "get_objects"));
  const Ref all = Ref::New(*python, get ? python->PyObject_CallObject(get.get(), nullptr) : nullptr);
  if (!all || python->TypeOf(all.get()) != python->PyList_Type) return false;
  const auto& known = *reinterpret_cast<const List*>(all.get());
  for (std::ptrdiff_t i = 0; i < known.size; ++i) finder.See(known.items[i]);
  return true;
}

std::optional<Finder::Mode> ModeOf(PyObject* text) {
  const char* name = python->PyUnicode_AsUTF8AndSize(text, nullptr);
  if (name == nullptr) return std::nullopt;
  const std::string_view word(name);
  if (word == "pick") return Finder::Mode::kPick;
  if (word == "hold") return Finder::Mode::kHold;
  if (word == "count") return Finder::Mode::kCount;
  if (word == "refer") return Finder::Mode::kRefer;
  return std::nullopt;
}

PyObject* HeapSlice(PyObject*, PyObject* arguments) {
  constexpr std::ptrdiff_t kArguments = 6;
  if (python->PyTuple_Size(arguments) != kArguments) {
    python->PyErr_SetString(*python->PyExc_TypeError, "heap_slice takes six arguments");
    return nullptr;
  }
  PyObject* cursor = python->PyTuple_GetItem(arguments, 0);
  const bool begins = python->PyTuple_GetItem(arguments, 1) == python->_Py_TrueStruct;
  int overflow = 0;
  const std::int64_t hold_us =
      python->PyLong_AsLongLongAndOverflow(python->PyTuple_GetItem(arguments, 2), &overflow);
  const std::optional<Finder::Mode> mode = ModeOf(python->PyTuple_GetItem(arguments, 3));
  Ref list = Ref::New(*python, python->PyObject_CallFunctionObjArgs(python->PyList_Type, nullptr));
  if (!mode.has_value() || !list || python->TypeOf(cursor) != python->PyList_Type) {
    if (python->PyErr_Occurred() == nullptr)
      python->PyErr_SetString(*python->PyExc_TypeError, "heap_slice needs a list as cursor and a mode");
    return nullptr;
  }
  Finder finder(*mode, python->PyTuple_GetItem(arguments, 4), python->PyTuple_GetItem(arguments, 5));
  bool goes_on = false;
  // `list` is the youngest object there is, and so tells where the collector's lists are.
  const std::optional<GcLists> lists = GcLists::Find(*python, list.get());
  if (lists.has_value()) {
    goes_on = WalkSlice(*lists, cursor, begins, hold_us, finder);
  } else if (!WalkAtOnce(finder)) {
    return nullptr;
  }
  PyObject* answer = goes_on ? python->_Py_TrueStruct : python->_Py_FalseStruct;
  bool good = python->PyList_Append(list.get(), answer) == 0;
  good = finder.MoveInto(list.get()) && good;
  return good ? list.release() : nullptr;
}

std::array methods{
    PyMethodDef{"heap_slice", reinterpret_cast<void*>(&HeapSlice), kMethVarargs, nullptr},
    PyMethodDef{"address_set", reinterpret_cast<void*>(&MakeAddressSet), kMethVarargs, nullptr},
};

}  // namespace

bool AddHeapFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  if (!api.HasGil()) return true;
  for (PyMethodDef& method : methods) {
    if (!AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

}  // namespace probing::pyapi
