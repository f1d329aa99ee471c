#include "query/value_time.h"

#include <cstdlib>
#include <limits>

namespace probing::query {
namespace {

void AppendPadded(std::string& out, std::int64_t number, int digits) {
  std::string text = std::to_string(number);
  out.append(text.size() < static_cast<std::size_t>(digits) ? digits - text.size() : 0, '0');
  out += text;
}

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) {
  return a / b - static_cast<std::int64_t>(a % b < 0);
}

std::int64_t PowerOfTen(int digits) {
  std::int64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  return power;
}

void AppendCount(std::string& out, std::int64_t number, const char* unit) {
  if (number == 0) return;
  if (!out.empty() && out.back() != ' ') out += ' ';
  out += std::to_string(number) + " " + unit + (std::llabs(number) == 1 ? "" : "s");
}

// ±infinity of dates and timestamps.
template <typename T>
bool AppendInfinity(std::string& out, T value) {
  if (value == std::numeric_limits<T>::max())
    out += "infinity";
  else if (value == -std::numeric_limits<T>::max())
    out += "-infinity";
  else
    return false;
  return true;
}

}  // namespace

// Days to year, month, day in the proleptic Gregorian calendar: years begin in March here, so that
// the day which is sometimes there is the last one.
void AppendDate(std::string& out, std::int32_t days_since_epoch) {
  if (AppendInfinity(out, days_since_epoch)) return;
  const std::int64_t days = std::int64_t{days_since_epoch} + 719'468;
  const std::int64_t era = FloorDivide(days, 146'097);
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted_month = (5 * day_of_year + 2) / 153;
  const std::int64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
  const std::int64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  std::int64_t year = year_of_era + era * 400 + static_cast<std::int64_t>(month <= 2);
  const bool before_christ = year <= 0;
  if (before_christ) year = 1 - year;
  AppendPadded(out, year, 4);
  out += '-';
  AppendPadded(out, month, 2);
  out += '-';
  AppendPadded(out, day, 2);
  if (before_christ) out += " (BC)";
}

void AppendTimeOfDay(std::string& out, std::int64_t count, int digits) {
  const std::int64_t second = PowerOfTen(digits);
  const std::int64_t seconds = count / second;
  AppendPadded(out, seconds / 3600, 2);
  out += ':';
  AppendPadded(out, seconds / 60 % 60, 2);
  out += ':';
  AppendPadded(out, seconds % 60, 2);
  if (count % second == 0) return;
  out += '.';
  AppendPadded(out, count % second, digits);
  while (out.back() == '0') out.pop_back();
}

void AppendTimestamp(std::string& out, std::int64_t count, int digits) {
  if (AppendInfinity(out, count)) return;
  const std::int64_t day = 86'400 * PowerOfTen(digits);
  const std::int64_t days = FloorDivide(count, day);
  AppendDate(out, static_cast<std::int32_t>(days));
  out += ' ';
  AppendTimeOfDay(out, count - days * day, digits);
}

void AppendZone(std::string& out, std::int32_t offset_seconds) {
  out += offset_seconds < 0 ? '-' : '+';
  const std::int32_t seconds = std::abs(offset_seconds);
  AppendPadded(out, seconds / 3600, 2);
  if (seconds % 3600 == 0) return;
  out += ':';
  AppendPadded(out, seconds / 60 % 60, 2);
  if (seconds % 60 == 0) return;
  out += ':';
  AppendPadded(out, seconds % 60, 2);
}

void AppendInterval(std::string& out, std::int32_t months, std::int32_t days, std::int64_t micros) {
  std::string text;
  AppendCount(text, months / 12, "year");
  AppendCount(text, months % 12, "month");
  AppendCount(text, days, "day");
  if (micros != 0 || text.empty()) {
    if (!text.empty()) text += ' ';
    if (micros < 0) text += '-';
    AppendTimeOfDay(text, std::llabs(micros), 6);
  }
  out += text;
}

}  // namespace probing::query
