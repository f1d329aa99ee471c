// Single numbers as numpy and torch store them: float16, uint32, complex64…. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace probing::cpython {

// How a type of numbers is called and stored.
struct NumberType {
  std::string_view name;  // "float32", "int64", "bool"
  std::size_t size_bytes = 0;
  std::string (*format)(const std::byte* bytes) = nullptr;
};

// Null when it is none. Knows numpy's other names: "bool_", "longlong", "float128".
const NumberType* FindNumberType(std::string_view name);

// The longest of them.
inline constexpr std::size_t kMaxNumberBytes = 32;

// numpy's dates: `count` units of so many `unit`s (NPY_DATETIMEUNIT) since 1970, or as a distance.
// "np.datetime64('2020-01-01T12:30')", "np.timedelta64(3,'s')". Empty when there is no such unit.
std::string FormatDatetime64(std::int64_t count, std::int32_t unit, std::int32_t units);
std::string FormatTimedelta64(std::int64_t count, std::int32_t unit, std::int32_t units);

}  // namespace probing::cpython
