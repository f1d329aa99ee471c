#include "query/display_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace probing::query {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Shown two columns wide: East Asian scripts and pictures.
constexpr std::array kWide{
    Range{0x1100, 0x115F},   Range{0x231A, 0x231B},   Range{0x23E9, 0x23F3},   Range{0x25FD, 0x25FE},
    Range{0x2614, 0x2615},   Range{0x2648, 0x2653},   Range{0x267F, 0x267F},   Range{0x2693, 0x2693},
    Range{0x26A1, 0x26A1},   Range{0x26AA, 0x26AB},   Range{0x26BD, 0x26BE},   Range{0x26C4, 0x26C5},
    Range{0x26CE, 0x26CE},   Range{0x26D4, 0x26D4},   Range{0x26EA, 0x26EA},   Range{0x26F2, 0x26F5},
    Range{0x26FA, 0x26FD},   Range{0x2705, 0x2705},   Range{0x270A, 0x270B},   Range{0x2728, 0x2728},
    Range{0x274C, 0x274E},   Range{0x2753, 0x2757},   Range{0x2795, 0x2797},   Range{0x27B0, 0x27BF},
    Range{0x2B1B, 0x2B1C},   Range{0x2B50, 0x2B55},   Range{0x2E80, 0x303E},   Range{0x3041, 0x33FF},
    Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},   Range{0xA960, 0xA97F},
    Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},
    Range{0xFFE0, 0xFFE6},   Range{0x1F004, 0x1F004}, Range{0x1F0CF, 0x1F0CF}, Range{0x1F18E, 0x1F18E},
    Range{0x1F191, 0x1F19A}, Range{0x1F200, 0x1F320}, Range{0x1F32D, 0x1F335}, Range{0x1F337, 0x1F37C},
    Range{0x1F37E, 0x1F393}, Range{0x1F3A0, 0x1F3CA}, Range{0x1F3CF, 0x1F3D3}, Range{0x1F3E0, 0x1F3F0},
    Range{0x1F3F4, 0x1F3F4}, Range{0x1F3F8, 0x1F43E}, Range{0x1F440, 0x1F440}, Range{0x1F442, 0x1F4FC},
    Range{0x1F4FF, 0x1F53D}, Range{0x1F54B, 0x1F54E}, Range{0x1F550, 0x1F567}, Range{0x1F57A, 0x1F57A},
    Range{0x1F595, 0x1F596}, Range{0x1F5A4, 0x1F5A4}, Range{0x1F5FB, 0x1F64F}, Range{0x1F680, 0x1F6C5},
    Range{0x1F6CC, 0x1F6CC}, Range{0x1F6D0, 0x1F6D2}, Range{0x1F6D5, 0x1F6D7}, Range{0x1F6DC, 0x1F6DF},
    Range{0x1F6EB, 0x1F6EC}, Range{0x1F6F4, 0x1F6FC}, Range{0x1F7E0, 0x1F7EB}, Range{0x1F7F0, 0x1F7F0},
    Range{0x1F90C, 0x1F93A}, Range{0x1F93C, 0x1F945}, Range{0x1F947, 0x1F9FF}, Range{0x1FA70, 0x1FAFF},
    Range{0x20000, 0x3FFFD},
};

// Drawn over the character before them, or not at all.
constexpr std::array kNone{
    Range{0x0300, 0x036F}, Range{0x0483, 0x0489},   Range{0x0591, 0x05BD}, Range{0x0610, 0x061A},
    Range{0x064B, 0x065F}, Range{0x093C, 0x093C},   Range{0x0E31, 0x0E31}, Range{0x0E34, 0x0E3A},
    Range{0x1AB0, 0x1AFF}, Range{0x1DC0, 0x1DFF},   Range{0x200B, 0x200F}, Range{0x202A, 0x202E},
    Range{0x2060, 0x2064}, Range{0x20D0, 0x20FF},   Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F},
    Range{0xFEFF, 0xFEFF}, Range{0xE0100, 0xE01EF},
};

template <std::size_t kSize>
bool IsIn(const std::array<Range, kSize>& ranges, char32_t c) {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  return after != ranges.begin() && c <= std::prev(after)->last;
}

std::size_t WidthOf(char32_t c) {
  if (c < 0x300) return 1;
  return IsIn(kNone, c) ? 0 : IsIn(kWide, c) ? 2 : 1;
}

// Takes one character off the front.
char32_t TakeCharacter(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t c = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) c = (c << 6) | (byte(i) & 0x3F);
  text.remove_prefix(std::min(length, text.size()));
  return c;
}

}  // namespace

std::size_t DisplayWidth(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) width += WidthOf(TakeCharacter(text));
  return width;
}

std::string FitWidth(std::string_view text, std::size_t width) {
  if (text.size() <= width || DisplayWidth(text) <= width) return std::string(text);
  std::size_t used = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    used += WidthOf(TakeCharacter(after));
    if (used > width - 1) break;
    rest = after;
  }
  return std::string(text.substr(0, text.size() - rest.size())) + "…";
}

}  // namespace probing::query
