#include "cpython/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace probing::cpython {
namespace {

constexpr std::uint64_t kChunk = 1'000'000'000;
constexpr std::size_t kChunkDigits = 9;
constexpr std::string_view kCut = "…";
constexpr double kLeastPlain = 1e-4;
constexpr double kMostPlain = 1e16;
constexpr int kLongDoubleDigits = 36;  // after the point: enough for 128 bits
constexpr int kSmallFloatDigits = 9;

void AppendHex(std::string& out, std::string_view prefix, std::uint32_t value, int width) {
  out += prefix;
  for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[value >> shift & 0xf];
}

// What Python escapes, as far as it matters: controls, and what is invisible or turns text around.
bool IsHarmful(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || (c >= 0x2000 && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202f) || (c >= 0x205f && c <= 0x206f) || c == 0xfeff;
}

void AppendEscaped(std::string& out, std::uint32_t c) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x100) {
    AppendHex(out, "\\x", c, 2);
  } else {
    AppendHex(out, "\\u", c, 4);
  }
}

char PickQuote(std::string_view text) {
  return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
}

// How many bytes the character takes that starts here, and which it is up to U+FFFF.
std::size_t Decode(std::string_view text, std::uint32_t& c) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  c = size == 1 ? first : first & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size && i < text.size(); ++i) c = c << 6 | (text[i] & 0x3fU);
  return std::min(size, text.size());
}

template <typename Float>
std::string FormatShortest(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  // 1e16 and more, and less than 1e-4, are written with an exponent.
  const Float size = std::fabs(value);
  const bool plain = size == 0 || (size >= kLeastPlain && size < kMostPlain);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// Python's notation of "d.ddde+dd", as printf() writes it.
std::string FromScientific(std::string_view text) {
  const std::size_t e = text.find('e');
  if (e == std::string_view::npos) return std::string(text);
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string digits(text.substr(0, e));
  const bool negative = digits.front() == '-';
  std::erase_if(digits, [](char c) { return c == '.' || c == '-'; });
  if (exponent < 0) {
    digits.insert(0, static_cast<std::size_t>(-exponent), '0');
    digits.insert(1, ".");
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole - digits.size() + 1, '0');
    digits.insert(whole, ".");
  }
  return negative ? "-" + digits : digits;
}

}  // namespace

std::string FormatInteger(std::span<const std::uint32_t> digits, bool negative) {
  std::vector<std::uint32_t> rest(digits.begin(), digits.end());
  std::string text;
  while (!rest.empty()) {
    std::uint64_t remainder = 0;
    for (std::size_t i = rest.size(); i-- > 0;) {
      remainder = remainder << kIntegerDigitBits | rest[i];
      rest[i] = static_cast<std::uint32_t>(remainder / kChunk);
      remainder %= kChunk;
    }
    while (!rest.empty() && rest.back() == 0) rest.pop_back();
    std::string chunk = std::to_string(remainder);
    if (!rest.empty()) chunk.insert(0, kChunkDigits - chunk.size(), '0');
    text.insert(0, chunk);
  }
  if (text.empty()) return "0";
  return negative ? "-" + text : text;
}

std::string FormatFloat(double value) { return FormatShortest(value); }
std::string FormatFloat32(float value) { return FormatShortest(value); }

std::string FormatLongDouble(long double value) {
  if (!std::isfinite(value)) return FormatFloat(static_cast<double>(value));
  std::array<char, 64> buffer{};
  for (int digits = 0; digits <= kLongDoubleDigits; ++digits) {
    std::snprintf(buffer.data(), buffer.size(), "%.*Le", digits, value);
    if (std::strtold(buffer.data(), nullptr) == value) break;
  }
  return FromScientific(buffer.data());
}

// Sign, `exponent_bits`, `mantissa_bits`, as IEEE 754 has them.
static std::string FormatSmallFloat(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
  const bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) {
    if (mantissa != 0) return "nan";
    return negative ? "-inf" : "inf";
  }
  const int scale = std::max(exponent, 1) - bias - mantissa_bits;  // of the last bit
  const double size = std::ldexp(mantissa + (exponent > 0 ? 1U << mantissa_bits : 0U), scale);
  const double value = negative ? -size : size;
  if (size == 0) return FormatFloat(value);
  // Nearer to it than to its neighbours. Below a power of two they are closer.
  const double above = std::ldexp(0.5, scale);
  const double below = mantissa == 0 && exponent > 1 ? above / 2 : above;
  std::array<char, 64> buffer{};
  for (int digits = 0; digits <= kSmallFloatDigits; ++digits) {
    std::snprintf(buffer.data(), buffer.size(), "%.*e", digits, size);
    const double read_back = std::strtod(buffer.data(), nullptr);
    if (read_back - size < above && size - read_back < below) break;
  }
  return (negative ? "-" : "") + FromScientific(buffer.data());
}

std::string FormatFloat16(std::uint16_t bits) { return FormatSmallFloat(bits, 5, 10); }
std::string FormatBrainFloat16(std::uint16_t bits) { return FormatSmallFloat(bits, 8, 7); }

std::string FormatComplex(std::string_view real, std::string_view imaginary) {
  const auto bare = [](std::string_view text) {
    if (text.ends_with(".0")) text.remove_suffix(2);
    return std::string(text);
  };
  const std::string i = bare(imaginary) + "j";
  if (real == "0.0") return i;
  return bare(real) + (i.front() == '-' ? "" : "+") + i;
}

std::string QuoteText(std::string_view utf8, std::size_t max_characters) {
  const char quote = PickQuote(utf8);
  std::string text(1, quote);
  std::size_t count = 0;
  while (!utf8.empty() && count < max_characters) {
    std::uint32_t c = 0;
    const std::size_t size = Decode(utf8, c);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (IsHarmful(c)) {
      AppendEscaped(text, c);
    } else {
      text += utf8.substr(0, size);
    }
    utf8.remove_prefix(size);
    ++count;
  }
  text += quote;
  if (!utf8.empty()) text += kCut;
  return text;
}

std::string QuoteBytes(std::span<const std::uint8_t> bytes, std::size_t max_bytes) {
  const char quote = PickQuote({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::string text = std::string("b") + quote;
  for (const std::uint8_t c : bytes.first(std::min(bytes.size(), max_bytes))) {
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f) {
      AppendEscaped(text, c);
    } else {
      text += static_cast<char>(c);
    }
  }
  text += quote;
  if (bytes.size() > max_bytes) text += kCut;
  return text;
}

}  // namespace probing::cpython
