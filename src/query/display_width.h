// How many columns of a terminal a text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace probing::query {

// REQUIRES: UTF-8 without control characters (Visible() makes it so).
std::size_t DisplayWidth(std::string_view text);

// The beginning of `text` that fits, with "…" when something is cut off. REQUIRES: width > 0.
std::string FitWidth(std::string_view text, std::size_t width);

}  // namespace probing::query
