// The word that was meant.
#pragma once

#include <span>
#include <string_view>

namespace probing {

// The candidate nearest to `name` by edit distance; "" when none is near.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace probing
