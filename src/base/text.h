// Small questions about text.
#pragma once

#include <algorithm>
#include <string_view>

namespace probing {

// Digits and nothing else, as in the names of /proc/PID.
inline bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Takes off what stands before `separator`, and the separator; all of it when there is none.
inline std::string_view TakePart(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

}  // namespace probing
