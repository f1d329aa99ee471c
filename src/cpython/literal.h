// Numbers and texts in Python's notation, as repr() would write them. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace probing::cpython {

inline constexpr unsigned kIntegerDigitBits = 30;

// `digits` are those of a PyLongObject, lowest first. Takes time in the square of their number.
std::string FormatInteger(std::span<const std::uint32_t> digits, bool negative);

// The shortest text that reads back as the same number: 0.1, 1e+16, inf, nan.
std::string FormatFloat(double value);
// The same for numbers of less or more precision: 0.1 is the nearest of each.
std::string FormatFloat32(float value);
std::string FormatFloat16(std::uint16_t bits);
std::string FormatBrainFloat16(std::uint16_t bits);
std::string FormatLongDouble(long double value);

// Of two of the texts above: "0.3+5j", and "2j" when the real part is 0. In brackets for Python's own.
std::string FormatComplex(std::string_view real, std::string_view imaginary);

// Quotes UTF-8 and keeps `max_characters`, then "…". Control characters and those that change the
// direction or the look of what is around them are escaped, so that a terminal is safe.
std::string QuoteText(std::string_view utf8, std::size_t max_characters);

// b'…', of which the first `max_bytes` are kept.
std::string QuoteBytes(std::span<const std::uint8_t> bytes, std::size_t max_bytes);

}  // namespace probing::cpython
