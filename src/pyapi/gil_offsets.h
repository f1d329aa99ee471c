// Where the interpreter keeps the flags that the GIL is taken with. All numbers are bytes.
//
// CPython 3.9 to 3.12 has no function to set the flag that makes its loop look for pending calls (later
// versions set it themselves, earlier ones in Py_AddPendingCall). So it is written where the table of that
// version says, and only after the interpreter at hand was found to be laid out like the table (Fits).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace probing::pyapi {

inline constexpr std::uint32_t kNoOffset = 0xffffffff;  // this version has no such field

struct GilOffsets {
  std::uint32_t queue_closed = kNoOffset;  // in _PyRuntime, 3.8: an int, whether Py_AddPendingCall refuses
  // In the interpreter's state, 3.9 to 3.12:
  std::uint32_t breaker = kNoOffset;       // an int, the flag
  std::uint32_t threads_head = kNoOffset;  // a pointer, the newest thread's state
  std::uint32_t modules = kNoOffset;       // a pointer, sys.modules

  bool operator==(const GilOffsets&) const = default;
};

// The table of a version like 311. Nothing when it needs none, or there is none.
std::optional<GilOffsets> FindGilOffsets(int version);

// True when an interpreter's state has these two pointers, which it gives away by functions, where the table
// says: one lies before and one behind the flag, or both behind it, so that a build with other fields is
// noticed.
inline bool Fits(const GilOffsets& offsets, const void* interpreter, const void* threads_head,
                 const void* modules) {
  const auto at = [&](std::uint32_t offset) {
    const void* value = nullptr;
    std::memcpy(&value, static_cast<const char*>(interpreter) + offset, sizeof(value));
    return value;
  };
  return threads_head != nullptr && modules != nullptr && at(offsets.threads_head) == threads_head &&
         at(offsets.modules) == modules;
}

}  // namespace probing::pyapi
