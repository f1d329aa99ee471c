// Threads of the job that call modules, and how deep they are in them.
#pragma once

#include <array>
#include <cstdint>

#include "pyapi/python_api.h"

namespace probing::torch {

using pyapi::PyObject;

struct TracedThread {
  const void* id = nullptr;      // null: not used
  bool inside = false;           // a call of a module is under way
  std::int32_t top = -1;         // the innermost one that is noted, of this generation
  std::uint64_t generation = 0;  // of top
  PyObject* root = nullptr;      // the outermost one; alive, since it is being called
  bool beside = false;           // it does not train, and the outermost call has no gradients
  bool fetches = false;          // a batch, from a data loader
};

// With the GIL, which is why no thread-local storage is needed: it would have to be found on every
// call, and outlives an unloaded library badly.
class TracedThreads {
 public:
  // Whether the current thread is within a call of a module, as far as one look can tell.
  bool Inside() const { return last_->id == __builtin_thread_pointer() && last_->inside; }

  // Null when there are too many.
  TracedThread* Current() {
    const void* self = __builtin_thread_pointer();  // different for every thread, without a call
    return last_->id == self ? last_ : Find(self);
  }

 private:
  TracedThread* Find(const void* self) {
    TracedThread* unused = nullptr;
    TracedThread* free = nullptr;
    for (TracedThread& thread : threads_) {
      if (thread.id == self) return last_ = &thread;
      if (unused == nullptr && thread.id == nullptr) unused = &thread;
      // Not last_: the thread that trains mostly is that one, and comes back.
      if (free == nullptr && !thread.inside && !thread.fetches && &thread != last_) free = &thread;
    }
    if (unused != nullptr) free = unused;
    if (free == nullptr) return nullptr;
    *free = {.id = self};
    return last_ = free;
  }

  std::array<TracedThread, 64> threads_{};
  TracedThread* last_ = threads_.data();
};

}  // namespace probing::torch
