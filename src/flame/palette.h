// The colours of flame graphs: warm for Python, blue for native code, grey for what waits.
//
// Within a kind the hue tells modules apart and the lightness functions, so that a library is seen at a
// glance. Each colour has a number; which one that is depends on whether the page is light or dark, so
// it is decided in the browser.
#pragma once

#include <string>

#include "flame/profile.h"

namespace probing::flame {

// "p0" to "p11" for Python, "n0" to "n11" for native code, "g" for groups; always the same for the
// same function.
std::string ColourName(const Frame& frame);
inline constexpr const char* kIdleColour = "i";

// Rules ".p0 rect{fill:#…}", those of dark pages in a media query.
std::string PaletteCss();
// {"light": {"p0": "#…", …}, "dark": {…}}.
std::string PaletteJson();

}  // namespace probing::flame
