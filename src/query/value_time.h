// Dates, times and intervals as text.
#pragma once

#include <cstdint>
#include <string>

namespace probing::query {

void AppendDate(std::string& out, std::int32_t days_since_epoch);

// `count` units of 10^-digits seconds since midnight, or since the epoch.
void AppendTimeOfDay(std::string& out, std::int64_t count, int digits);
void AppendTimestamp(std::string& out, std::int64_t count, int digits);

// "+02" or "-03:30".
void AppendZone(std::string& out, std::int32_t offset_seconds);

// "1 year 2 days 03:04:05.5", as DuckDB writes it.
void AppendInterval(std::string& out, std::int32_t months, std::int32_t days, std::int64_t micros);

}  // namespace probing::query
