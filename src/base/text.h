// Small questions about text.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

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

// Without those of `characters` that stand at its ends.
inline std::string_view Trim(std::string_view text, std::string_view characters) {
  const std::size_t first = std::min(text.find_first_not_of(characters), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(characters) + 1);
}

// Letters of ASCII, whatever the locale: how SQL and HTTP compare names.
inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

// Whether all of the text is a number of this type, which is left alone otherwise. `base` is for integers.
template <typename Number, typename... Base>
bool ParseNumber(std::string_view text, Number& number, Base... base) {
  Number parsed{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed, base...);
  if (error != std::errc() || stop != end) return false;
  number = parsed;
  return true;
}

}  // namespace probing
