#include "flame/palette.h"

#include <algorithm>
#include <array>

#include "flame/palette_colours.h"

namespace probing::flame {
namespace {

constexpr std::size_t kShades = 3;

// std::hash may differ between builds; a picture must not.
std::uint32_t Fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// Behind the last folder that packages are installed in; "" elsewhere.
std::string_view InPackages(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    if (const std::size_t at = file.rfind(folder); at != std::string_view::npos)
      return file.substr(at + folder.size());
  }
  return "";
}

std::string Rules(bool dark) {
  std::string css;
  for (const ClassColours& each : kClasses) {
    const Tones& tones = dark ? each.dark : each.light;
    for (std::size_t i = 0; i < kShades; ++i) {
      const std::string rule = "." + std::string(each.id) + std::to_string(i);
      css += rule + " rect{fill:" + std::string(tones.fill.at(i)) + "}" + rule +
             " text{fill:" + std::string(tones.ink) + "}";
    }
  }
  return css;
}

}  // namespace

std::string_view ClassOf(const Frame& frame) {
  if (frame.kind == FrameKind::kGroup) return "group";
  if (frame.kind == FrameKind::kNative) return "native";
  const std::string_view file = frame.file;
  if (const std::string_view inside = InPackages(file); !inside.empty())
    return inside.starts_with("torch/") ? "torch" : "packages";
  return file.find("/lib/python3") != std::string_view::npos || file.starts_with("<frozen") ? "stdlib"
                                                                                            : "own";
}

std::string ColourName(const Frame& frame) {
  return std::string(ClassOf(frame)) + std::to_string(Fnv1a(frame.function) % kShades);
}

std::string_view ClassTitle(std::string_view colour) {
  const auto found =
      std::ranges::find_if(kClasses, [&](const ClassColours& each) { return colour.starts_with(each.id); });
  return found == kClasses.end() ? "" : found->title;
}

std::string PaletteCss() { return Rules(false) + "\n@media(prefers-color-scheme:dark){" + Rules(true) + "}"; }

}  // namespace probing::flame
