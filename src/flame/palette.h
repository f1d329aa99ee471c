// The colours of flame graphs: whose code a frame is. The same in the SVG, the HTML page and the web page:
// they are in palette.json.
//
// Within a class the shade tells functions apart. Which colour that is depends on whether the page is light
// or dark, so it is decided in the browser.
#pragma once

#include <string>
#include <string_view>

#include "flame/profile.h"

namespace probing::flame {

// "own", "torch", "packages" (of others), "stdlib", "native" or "group". web/src/lib/flame_tree.ts does it
// too.
std::string_view ClassOf(const Frame& frame);

// "own0" to "own2", and so on: a class and one of its shades; always the same for the same function.
std::string ColourName(const Frame& frame);
inline constexpr const char* kIdleColour = "idle0";

// What people call the class that a colour belongs to.
std::string_view ClassTitle(std::string_view colour);

// Rules ".own0 rect{fill:#…}.own0 text{fill:#…}", those of dark pages in a media query.
std::string PaletteCss();

}  // namespace probing::flame
