#include "flame/palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "flame/view.h"

namespace probing::flame {
namespace {

constexpr std::size_t kHues = 4;
constexpr std::size_t kShades = 3;

// std::hash may differ between builds; a picture must not.
std::uint32_t Fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::string FromHsl(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](int n) {
    const double k = std::fmod(n + hue / 30, 12);
    const double value = lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<int>(std::lround(255 * value));
  };
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", channel(0), channel(8), channel(4));
  return text.data();
}

using Palette = std::vector<std::pair<std::string, std::string>>;  // name, colour

// Text on them is black on light pages and white on dark ones: at least 4.5 to 1 with both.
Palette MakePalette(bool dark) {
  constexpr std::array<double, kHues> kPythonHues = {14, 28, 42, 54};
  constexpr std::array<double, kHues> kNativeHues = {190, 205, 220, 235};
  Palette palette;
  for (std::size_t i = 0; i < kHues * kShades; ++i) {
    const double shade = static_cast<double>(i % kShades) * 0.05;
    const std::string number = std::to_string(i);
    palette.emplace_back("p" + number, FromHsl(kPythonHues[i / kShades], dark ? 0.6 : 0.85,
                                               dark ? 0.24 + shade * 0.7 : 0.63 + shade));
    palette.emplace_back("n" + number, FromHsl(kNativeHues[i / kShades], dark ? 0.35 : 0.55,
                                               dark ? 0.26 + shade * 0.7 : 0.72 + shade));
  }
  palette.emplace_back(kIdleColour, dark ? "#45484d" : "#c4c8ce");
  palette.emplace_back("g", dark ? "#33363b" : "#dfe2e6");
  return palette;
}

std::string Rules(const Palette& palette) {
  std::string css;
  for (const auto& [name, colour] : palette) css += "." + name + " rect{fill:" + colour + "}";
  return css;
}

std::string Object(const Palette& palette) {
  std::string json;
  for (const auto& [name, colour] : palette)
    json += (json.empty() ? "{\"" : ",\"") + name + "\":\"" + colour + "\"";
  return json + "}";
}

}  // namespace

std::string ColourName(const Frame& frame) {
  if (frame.kind == FrameKind::kGroup) return "g";
  const std::string file = ShortFile(frame.file);
  const std::string_view module = std::string_view(file).substr(0, file.find('/'));
  const std::size_t number = Fnv1a(module) % kHues * kShades + Fnv1a(frame.function) % kShades;
  return (frame.kind == FrameKind::kNative ? "n" : "p") + std::to_string(number);
}

std::string PaletteCss() {
  return Rules(MakePalette(false)) + "\n@media(prefers-color-scheme:dark){" + Rules(MakePalette(true)) + "}";
}

std::string PaletteJson() {
  return "{\"light\":" + Object(MakePalette(false)) + ",\"dark\":" + Object(MakePalette(true)) + "}";
}

}  // namespace probing::flame
