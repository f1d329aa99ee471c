// Numbers as people write many of them.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace probing {

// {0, 1, 2, 5} becomes "0-2, 5".
inline std::string Ranges(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != numbers.end() && *next == *last + 1) last = next++;
    text += (text.empty() ? "" : ", ") + std::to_string(*first);
    if (*last > *first) text += (*last > *first + 1 ? "-" : ", ") + std::to_string(*last);
    first = next;
  }
  return text;
}

}  // namespace probing
