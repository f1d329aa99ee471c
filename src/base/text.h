// Small questions about text.
#pragma once

#include <algorithm>
#include <string_view>

namespace probing {

// Digits and nothing else, as in the names of /proc/PID.
inline bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace probing
