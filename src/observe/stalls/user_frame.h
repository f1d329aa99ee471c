// Which frame of a stack is the user's: the line that a reader can change.
#pragma once

#include <optional>
#include <vector>

#include "flame/profile.h"

namespace probing::observe {

// The position in `frames` (outermost first) of the innermost frame that is neither of the standard library
// nor of an installed package. Frames of an event loop, and what started that, are not looked at. Without
// such a frame the innermost of a package, else the innermost; nothing when there is none.
std::optional<std::size_t> FindUserFrame(const std::vector<const flame::Frame*>& frames);

}  // namespace probing::observe
