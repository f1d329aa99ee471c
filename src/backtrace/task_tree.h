// Tasks of asyncio as a tree, as `python -m asyncio pstree` of CPython 3.14 prints it: each task with what it
// awaits, outermost first, and below the innermost frame the tasks that it waits for.
#pragma once

#include <string>
#include <vector>

#include "cpython/snapshot.h"

namespace probing::backtrace {

// Every line is indented by so many spaces. A task that several wait for is shown with its frames once; tasks
// that wait for each other in a circle are shown too, and said to be one.
std::string FormatTaskTree(const std::vector<cpython::Task>& tasks, std::size_t indent);

}  // namespace probing::backtrace
