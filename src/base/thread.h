// Threads that live in somebody else's process: all signals blocked, a name, a bounded stack,
// and none of the scheduling that the creating thread may have had, where its user may change that.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "base/result.h"

namespace probing {

inline constexpr std::size_t kSmallStackBytes = 512U << 10;

// Joinable. `name` has at most 15 characters.
Result<pthread_t> StartQuietThread(void* (*body)(void*), void* argument, std::size_t stack_bytes,
                                   const char* name);

}  // namespace probing
