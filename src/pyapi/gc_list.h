// The lists in which the collector of Python 3.6 to 3.13 keeps all objects it knows, by their layout.
//
// Each object has a head in front of it: next, previous, and up to 3.7 a count. The previous one's address
// has flags in its low bits from 3.8 on. There are three lists, whose own heads lie side by side in the
// interpreter's state; new objects are put at the end of list 0, survivors of a collection at the end of a
// higher one, in their order, except that a full collection may change the order. Where any of this is not as
// expected, Find() says so.
// All with the GIL: then no collection moves anything, unless we make objects.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "pyapi/python_api.h"

namespace probing::pyapi {

class GcLists {
 public:
  static constexpr int kOldest = 2;

  // `youngest` is the object that was made last.
  static std::optional<GcLists> Find(const PythonApi& api, PyObject* youngest) {
    const int version = api.VersionNumber();
    if (!api.HasGil() || version < 306 || version > 313) return std::nullopt;
    struct Layout {
      std::size_t head_bytes;
      std::size_t generation_bytes;  // a head and two ints, aligned
    };
    static constexpr std::array kOld{Layout{32, 48}, Layout{24, 32}};
    static constexpr std::array kNew{Layout{16, 24}, Layout{16, 24}};
    for (const Layout& layout : version < 308 ? kOld : kNew) {
      GcLists lists(layout.head_bytes);
      Head* own = lists.HeadOf(youngest);
      Head* first = own->next;
      if (first == nullptr || (reinterpret_cast<std::uintptr_t>(first) & kFlags) != 0) continue;
      if (Previous(first) != own) continue;  // the last one's next is the list itself
      bool good = true;
      for (std::size_t i = 0; i < lists.heads_.size(); ++i) {
        Head* head = reinterpret_cast<Head*>(reinterpret_cast<char*>(first) + i * layout.generation_bytes);
        good = good && head->next != nullptr && Previous(head->next) == head && Previous(head)->next == head;
        if (!good) break;
        lists.heads_[i] = head;
      }
      if (good) return lists;
    }
    return std::nullopt;
  }

  // The object behind this one, or the number of the list that ends here.
  PyObject* After(PyObject* object, std::optional<int>* ended) const {
    Head* next = HeadOf(object)->next;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (next == heads_[i]) {
        *ended = static_cast<int>(i);
        return nullptr;
      }
    }
    return ObjectOf(next);
  }

  void MoveToFront(PyObject* cursor, int list) const {
    Link(HeadOf(cursor), heads_[static_cast<std::size_t>(list)]);
  }
  void MoveBehind(PyObject* cursor, PyObject* object) const {
    if (object != nullptr) Link(HeadOf(cursor), HeadOf(object));
  }

 private:
  struct Head {
    Head* next;
    std::uintptr_t previous;
  };
  static constexpr std::uintptr_t kFlags = 3;

  explicit GcLists(std::size_t head_bytes) : head_bytes_(head_bytes) {}

  static Head* Previous(const Head* head) { return reinterpret_cast<Head*>(head->previous & ~kFlags); }
  static void SetPrevious(Head* head, Head* previous) {
    head->previous = reinterpret_cast<std::uintptr_t>(previous) | (head->previous & kFlags);
  }
  Head* HeadOf(PyObject* object) const {
    return reinterpret_cast<Head*>(reinterpret_cast<char*>(object) - head_bytes_);
  }
  PyObject* ObjectOf(Head* head) const {
    return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(head) + head_bytes_);
  }
  // Takes `moved` out of where it is and puts it behind `place`.
  static void Link(Head* moved, Head* place) {
    if (moved == place) return;
    Previous(moved)->next = moved->next;
    SetPrevious(moved->next, Previous(moved));
    moved->next = place->next;
    SetPrevious(moved, place);
    SetPrevious(place->next, moved);
    place->next = moved;
  }

  std::size_t head_bytes_;
  std::array<Head*, kOldest + 1> heads_{};
};

// Calls visit(referent, argument) for everything an object refers to, as the collector does. `type` is the
// object's. Runs no Python code.
inline void Traverse(PyObject* type, PyObject* object, int (*visit)(PyObject*, void*), void* argument) {
  // tp_traverse, at the same place in all Pythons with a GIL.
  constexpr std::size_t kTraverseOffset = 184;
  using Function = int (*)(PyObject*, int (*)(PyObject*, void*), void*);
  const Function traverse =
      *reinterpret_cast<const Function*>(reinterpret_cast<const char*>(type) + kTraverseOffset);
  if (traverse != nullptr) (void)traverse(object, visit, argument);
}

}  // namespace probing::pyapi
