#include "cpython/array_numbers.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "cpython/literal.h"

namespace probing::cpython {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename Integer>
std::string Whole(const std::byte* bytes) {
  return std::to_string(Load<Integer>(bytes));
}
std::string Bool(const std::byte* bytes) { return Load<std::uint8_t>(bytes) != 0 ? "True" : "False"; }
std::string Half(const std::byte* bytes) { return FormatFloat16(Load<std::uint16_t>(bytes)); }
std::string BrainHalf(const std::byte* bytes) { return FormatBrainFloat16(Load<std::uint16_t>(bytes)); }
std::string Single(const std::byte* bytes) { return FormatFloat32(Load<float>(bytes)); }
std::string Double(const std::byte* bytes) { return FormatFloat(Load<double>(bytes)); }
std::string LongDouble(const std::byte* bytes) { return FormatLongDouble(Load<long double>(bytes)); }

template <std::string (*Part)(const std::byte*), std::size_t kPartBytes>
std::string Complex(const std::byte* bytes) {
  return FormatComplex(Part(bytes), Part(bytes + kPartBytes));
}

constexpr std::array kNumberTypes{
    NumberType{"bool", 1, Bool},
    NumberType{"int8", 1, Whole<std::int8_t>},
    NumberType{"uint8", 1, Whole<std::uint8_t>},
    NumberType{"int16", 2, Whole<std::int16_t>},
    NumberType{"uint16", 2, Whole<std::uint16_t>},
    NumberType{"int32", 4, Whole<std::int32_t>},
    NumberType{"uint32", 4, Whole<std::uint32_t>},
    NumberType{"int64", 8, Whole<std::int64_t>},
    NumberType{"uint64", 8, Whole<std::uint64_t>},
    NumberType{"float16", 2, Half},
    NumberType{"bfloat16", 2, BrainHalf},
    NumberType{"float32", 4, Single},
    NumberType{"float64", 8, Double},
    NumberType{"longdouble", sizeof(long double), LongDouble},
    NumberType{"complex64", 8, Complex<Single, 4>},
    NumberType{"complex128", 16, Complex<Double, 8>},
    NumberType{"clongdouble", 2 * sizeof(long double), Complex<LongDouble, sizeof(long double)>},
};

struct OtherName {
  std::string_view name, means;
};
constexpr std::array kOtherNames{
    OtherName{"bool_", "bool"},
    OtherName{"longlong", "int64"},
    OtherName{"ulonglong", "uint64"},
    OtherName{"float128", "longdouble"},
    OtherName{"complex256", "clongdouble"},
};

// NPY_DATETIMEUNIT. There is none with the number 3, and the rest is finer than a date needs here.
enum Unit : std::int32_t { kYears = 0, kMonths = 1, kWeeks = 2, kDays = 4, kNanoseconds = 10, kGeneric = 14 };
constexpr std::array<std::string_view, 14> kUnits = {"Y", "M",  "W",  "",   "D",  "h",  "m",
                                                     "s", "ms", "us", "ns", "ps", "fs", "as"};
constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();
// Units in a day, and digits after the seconds: of hours, minutes, seconds, milliseconds….
constexpr std::array<std::int64_t, 6> kPerDay = {24,           1'440,          86'400,
                                                 86'400'000LL, 86'400'000'000, 86'400'000'000'000};

// "s", "25s", "generic"; empty when there is no such unit.
std::string UnitText(std::int32_t unit, std::int32_t units) {
  if (unit == kGeneric) return "generic";
  if (unit < 0 || unit > kGeneric || units <= 0) return "";
  const std::string_view name = kUnits[static_cast<std::size_t>(unit)];
  if (name.empty()) return "";
  return (units == 1 ? "" : std::to_string(units)) + std::string(name);
}

std::string Padded(std::int64_t number, int width) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%0*lld", width, static_cast<long long>(number));
  return buffer.data();
}

// Days since 1970 as a date: eras of 400 years, which all are alike, with years that begin in March.
std::string DateText(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const std::int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const std::int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return Padded(year, 4) + "-" + Padded(month, 2) + "-" +
         Padded(day_of_year - (153 * month_from_march + 2) / 5 + 1, 2);
}

// `part`: of a day, in units of which kPerDay[index] make one.
std::string TimeText(std::int64_t part, std::size_t index) {
  const std::int64_t per_hour = kPerDay[index] / 24;
  std::string text = "T" + Padded(part / per_hour, 2);
  if (index == 0) return text;
  const std::int64_t per_minute = per_hour / 60;
  text += ":" + Padded(part % per_hour / per_minute, 2);
  if (index == 1) return text;
  const std::int64_t per_second = per_minute / 60;
  text += ":" + Padded(part % per_minute / per_second, 2);
  if (index == 2) return text;
  return text + "." + Padded(part % per_second, 3 * (static_cast<int>(index) - 2));
}

}  // namespace

const NumberType* FindNumberType(std::string_view name) {
  for (const OtherName& other : kOtherNames) {
    if (other.name == name) name = other.means;
  }
  for (const NumberType& type : kNumberTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string FormatDatetime64(std::int64_t count, std::int32_t unit, std::int32_t units) {
  const std::string unit_text = UnitText(unit, units);
  if (unit_text.empty()) return "";
  if (count == kNoTime) return "np.datetime64('NaT','" + unit_text + "')";
  std::int64_t total = 0;
  if (__builtin_mul_overflow(count, std::int64_t{units}, &total)) return "";
  std::string text;
  constexpr std::int64_t kMostYears = 1'000'000;
  if (unit == kYears) {
    if (total > kMostYears || total < -kMostYears) return "";
    text = Padded(1970 + total, 4);
  } else if (unit == kMonths) {
    if (total > kMostYears || total < -kMostYears) return "";
    const std::int64_t month = ((total % 12) + 12) % 12;
    text = Padded(1970 + (total - month) / 12, 4) + "-" + Padded(month + 1, 2);
  } else if (unit == kWeeks || unit == kDays) {
    if (total > 366 * kMostYears || total < -366 * kMostYears) return "";
    text = DateText(unit == kWeeks ? 7 * total : total);
  } else if (unit > kDays && unit <= kNanoseconds) {
    const auto index = static_cast<std::size_t>(unit - kDays - 1);
    const std::int64_t part = ((total % kPerDay[index]) + kPerDay[index]) % kPerDay[index];
    const std::int64_t days = total / kPerDay[index] - (total % kPerDay[index] < 0 ? 1 : 0);
    if (days > 366 * kMostYears || days < -366 * kMostYears) return "";
    text = DateText(days) + TimeText(part, index);
  } else {
    return "";
  }
  return "np.datetime64('" + text + (units == 1 ? "')" : "','" + unit_text + "')");
}

std::string FormatTimedelta64(std::int64_t count, std::int32_t unit, std::int32_t units) {
  const std::string number = count == kNoTime ? "'NaT'" : std::to_string(count);
  const std::string unit_text = UnitText(unit, units);
  if (unit_text.empty()) return "";
  return "np.timedelta64(" + number + (unit == kGeneric ? ")" : ",'" + unit_text + "')");
}

}  // namespace probing::cpython
