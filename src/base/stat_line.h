// The line of /proc/PID/stat and /proc/PID/task/TID/stat: "17 (a name) S 1 …". No allocation: also for
// targets.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace probing {

class StatLine {
 public:
  // Lifetime: the text must outlive it. Where the line is cut or something else, nothing is known.
  explicit StatLine(std::string_view text) {
    // The name may contain anything, even parentheses.
    const std::size_t name_start = text.find('('), name_end = text.rfind(") ");
    if (name_end == std::string_view::npos || name_start > name_end || name_end + 2 >= text.size()) return;
    name_ = text.substr(name_start + 1, name_end - name_start - 1);
    state_ = text[name_end + 2];
    rest_ = text.substr(name_end + 3);
  }

  std::string_view name() const { return name_; }
  char state() const { return state_; }            // '?' when it is not known
  std::string_view rest() const { return rest_; }  // from a space before field 4 on

  // By the numbers of proc(5), from 4 on. Nothing for one that is missing, negative or no number.
  std::optional<std::uint64_t> Field(int number) const {
    std::string_view text = rest_;
    for (int i = 4; i <= number; ++i) {
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos) return std::nullopt;
      text.remove_prefix(space + 1);
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() ? std::optional(value) : std::nullopt;
  }

 private:
  std::string_view name_, rest_;
  char state_ = '?';
};

}  // namespace probing
