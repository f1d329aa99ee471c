#include "flame/formats.h"

#include <algorithm>
#include <array>

namespace probing::flame {
namespace {

constexpr std::array kFormats{
    Format{"speedscope", ".speedscope.json", "application/json", ToSpeedscope},
    Format{"collapsed", ".collapsed.txt", "text/plain; charset=utf-8", ToCollapsed},
    Format{"pprof", ".pb", "application/octet-stream", ToPprof},
    Format{"chrome", ".trace.json", "application/json", ToChromeTrace},
    Format{"gecko", ".gecko.json", "application/json", ToGecko},
    Format{"heatmap", ".heatmap.html", "text/html; charset=utf-8", ToHeatmap},
    Format{"svg", ".svg", "image/svg+xml", ToSvg},
    Format{"html", ".html", "text/html; charset=utf-8", ToHtml},
};

}  // namespace

std::span<const Format> Formats() { return kFormats; }

const Format* FindFormat(std::string_view name) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& each) { return each.name == name; });
  return found == kFormats.end() ? nullptr : &*found;
}

std::string FormatNames() {
  std::string names;
  for (const Format& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

}  // namespace probing::flame
