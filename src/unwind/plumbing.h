// Which native functions are CPython's own, by name.
#pragma once

#include <string_view>

namespace probing::unwind {

// The function that executes bytecode, or a part of it that the compiler split off.
bool IsEvalLoop(std::string_view function);

// How CPython gets from a call in Python to the function that is called, and from its start to the
// program: true for every stack and interesting in none.
bool IsPlumbing(std::string_view function);

}  // namespace probing::unwind
