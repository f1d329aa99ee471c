// What files of /proc and cgroups say, as numbers. Content is hostile: a field that is missing,
// no number or too large is nullopt; nothing here fails or throws.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace probing::observe {

using Number = std::optional<std::int64_t>;

// A whole number at the start, after spaces; what follows it does not matter. Never negative: no
// counter is.
Number ParseNumber(std::string_view text);

// Takes the next word or line off the front; empty at the end.
std::string_view TakeWord(std::string_view& text);
std::string_view TakeLine(std::string_view& text);

// The number behind `key` at the start of a line: ("VmSwap:\t 12 kB", "VmSwap:") is 12.
Number FindNumber(std::string_view text, std::string_view key);

// In bytes, where the file counts "kB". nullopt also when that does not fit.
Number FindKilobytes(std::string_view text, std::string_view key);

// a × b; nullopt when one is missing or it does not fit.
Number Times(Number a, std::int64_t b);
Number Plus(Number a, Number b);

// "17 (a name) S 1 …" of a process or thread. Views into the text it was parsed from.
struct TaskStat {
  std::string_view name;
  char state = '?';
  std::array<Number, 53> fields;  // by the numbers of proc(5), from 4 on

  Number ppid() const { return fields[4]; }
  Number major_faults() const { return fields[12]; }
  Number user_ticks() const { return fields[14]; }
  Number system_ticks() const { return fields[15]; }
  Number threads() const { return fields[20]; }
  Number start_ticks() const { return fields[22]; }
  Number core() const { return fields[39]; }
  Number exit_status() const { return fields[52]; }  // as wait(2) has it; 0 also when it is hidden
};
std::optional<TaskStat> ParseTaskStat(std::string_view text);

std::int64_t TicksPerSecond();
std::int64_t PageSize();

}  // namespace probing::observe
