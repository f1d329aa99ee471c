#include "daemon/log.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/clock.h"
#include "base/file.h"
#include "base/visible.h"

namespace probing::daemon {
namespace {

constexpr std::array<std::string_view, 4> kNames{"error", "warn", "info", "debug"};
LogLevel level_shown = LogLevel::kInfo;

}  // namespace

void SetLogLevel(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) level_shown = static_cast<LogLevel>(i);
  }
}

void Log(LogLevel level, std::string_view message) {
  if (level > level_shown) return;
  const std::int64_t now_ns = WallNs();
  const time_t seconds = now_ns / 1'000'000'000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 64> stamp{};
  std::size_t size = strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  size += static_cast<std::size_t>(snprintf(stamp.data() + size, stamp.size() - size, ".%03dZ %-5s ",
                                            static_cast<int>(now_ns / 1'000'000 % 1000),
                                            kNames[static_cast<std::size_t>(level)].data()));
  // One write, so that lines of two daemons (one of them about to find the other) do not mix.
  // A log that cannot be written has nowhere to say so.
  (void)WriteAll(STDERR_FILENO, std::string(stamp.data(), size).append(Visible(message)).append("\n"));
}

}  // namespace probing::daemon
