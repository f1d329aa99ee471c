// Threads of the job that call modules, and how deep they are in them.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>

#include "pyapi/python_api.h"

namespace probing::pyapi {

struct TracedThread {
  pthread_t id{};
  bool used = false;
  std::uint32_t depth = 0;       // calls of modules that are under way
  std::int32_t top = -1;         // the innermost one that is noted, of this generation
  std::uint64_t generation = 0;  // of top
  PyObject* root = nullptr;      // the outermost one; alive, since it is being called
};

// With the GIL, which is why no thread-local storage is needed: it would have to be found on every
// call, and outlives an unloaded library badly.
class TracedThreads {
 public:
  // Null when there are too many.
  TracedThread* Current() {
    const pthread_t self = pthread_self();
    if (last_->used && pthread_equal(last_->id, self) != 0) return last_;
    return Find(self);
  }

 private:
  TracedThread* Find(pthread_t self) {
    TracedThread* free = nullptr;
    for (TracedThread& thread : threads_) {
      if (thread.used && pthread_equal(thread.id, self) != 0) return last_ = &thread;
      // Not last_: the thread that trains mostly is that one, and comes back.
      if (free == nullptr && thread.depth == 0 && &thread != last_) free = &thread;
    }
    if (free == nullptr) return nullptr;
    *free = {.id = self, .used = true};
    return last_ = free;
  }

  std::array<TracedThread, 64> threads_{};
  TracedThread* last_ = threads_.data();
};

}  // namespace probing::pyapi
