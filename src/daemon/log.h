// probingd's log: lines on stderr, which the command line points at probingd.log.
#pragma once

#include <cstdint>
#include <string_view>

namespace probing::daemon {

enum class LogLevel : std::uint8_t { kError, kWarn, kInfo, kDebug };

// Lines above the level are dropped. The setting is probing.loglevel; "info" until set.
void SetLogLevel(std::string_view name);

// "2026-11-15T22:17:42.123Z info  target 1234 ended"
void Log(LogLevel level, std::string_view message);

}  // namespace probing::daemon
