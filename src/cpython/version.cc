#include "cpython/version.h"

#include <algorithm>
#include <charconv>

namespace probing::cpython {
namespace {

constexpr int kOldestMinor = 4;

// Takes a number of one or two digits off the front.
std::optional<int> TakeNumber(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || digits > 2 || value < 0) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

// "3.8.18 (default, …": an alpha, a release candidate or a "+" may follow the number.
std::optional<Version> ParseFullText(std::string_view text) {
  text.remove_prefix(2);
  const auto minor = TakeNumber(text);
  if (!minor || *minor < kOldestMinor || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  const auto micro = TakeNumber(text);
  text.remove_prefix(std::min(text.find_first_not_of("abrc0123456789+"), text.size()));
  if (!micro || !text.starts_with(" (")) return std::nullopt;
  return Version{3, *minor, *micro};
}

}  // namespace

std::string Version::ToText() const {
  std::string text = std::to_string(major) + "." + std::to_string(minor);
  if (micro >= 0) text += "." + std::to_string(micro);
  return text;
}

Version VersionFromHex(std::uint64_t hex) {
  return {static_cast<int>(hex >> 24 & 0xff), static_cast<int>(hex >> 16 & 0xff),
          static_cast<int>(hex >> 8 & 0xff)};
}

std::optional<Version> VersionFromFileName(std::string_view base_name) {
  constexpr std::string_view kMark = "python3.";
  const std::size_t at = base_name.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = base_name.substr(at + kMark.size());
  const auto minor = TakeNumber(rest);
  if (!minor) return std::nullopt;
  return Version{3, *minor};
}

std::optional<Version> VersionFromVariables(std::string_view bytes) {
  constexpr std::string_view kStart = "3.";
  constexpr std::size_t kLongEnough = 32;
  for (std::size_t at = bytes.find(kStart, 1); at != std::string_view::npos;
       at = bytes.find(kStart, at + 1)) {
    if (bytes[at - 1] != '\0') continue;
    if (const auto version = ParseFullText(bytes.substr(at, kLongEnough))) return version;
  }
  return std::nullopt;
}

}  // namespace probing::cpython
