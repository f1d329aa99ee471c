// How the Python code that travels inside libprobing.so is told from the job's own.
#pragma once

namespace probing {

// The file name of its code objects: what a stack of the job shows for a wrapper of ours.
inline constexpr char kOwnPythonFile[] = "<libprobing>";

}  // namespace probing
