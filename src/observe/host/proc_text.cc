#include "observe/host/proc_text.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/stat_line.h"
#include "base/text.h"

namespace probing::observe {

Number ParseNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

std::string_view TakeLine(std::string_view& text) { return TakePart(text, '\n'); }

Number FindNumber(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (line.starts_with(key)) return ParseNumber(line.substr(key.size()));
  }
  return std::nullopt;
}

Number FindKilobytes(std::string_view text, std::string_view key) {
  return Times(FindNumber(text, key), 1024);
}

Number Times(Number a, std::int64_t b) {
  std::int64_t product = 0;
  if (!a.has_value() || __builtin_mul_overflow(*a, b, &product)) return std::nullopt;
  return product;
}

Number Plus(Number a, Number b) {
  std::int64_t sum = 0;
  if (!a.has_value() || !b.has_value() || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::optional<TaskStat> ParseTaskStat(std::string_view text) {
  const StatLine line(text);
  if (line.state() == '?') return std::nullopt;
  TaskStat stat;
  stat.name = line.name();
  stat.state = line.state();
  std::string_view rest = line.rest();
  for (std::size_t i = 4; i < stat.fields.size() && !rest.empty(); ++i) {
    stat.fields[i] = ParseNumber(TakeWord(rest));
  }
  return stat;
}

std::int64_t TicksPerSecond() {
  static const std::int64_t ticks = std::max(sysconf(_SC_CLK_TCK), 1L);
  return ticks;
}

std::int64_t PageSize() {
  static const std::int64_t size = std::max(sysconf(_SC_PAGESIZE), 1L);
  return size;
}

}  // namespace probing::observe
