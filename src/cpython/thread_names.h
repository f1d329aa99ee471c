// The names that Python's `threading` gives to threads.
#pragma once

#include <string>
#include <unordered_map>

#include "cpython/locate.h"

namespace probing::cpython {

// By what Python calls the thread's ident, which is its pthread_t.
using ThreadNames = std::unordered_map<std::uint64_t, std::string>;

// Empty when `threading` was not imported, or changes all the time. A name is there only if its
// thread still had this ident when the name had been read.
ThreadNames ReadThreadNames(const process::Memory& memory, const Location& location,
                            process::RemoteAddress interpreter);

}  // namespace probing::cpython
