// The newest Python whose layout this program knows. A newer one is read by its _Py_DebugOffsets alone, when
// all that it says about itself fits the newest layout (debug_offsets.cc).
#pragma once

#include "cpython/version.h"

namespace probing::cpython {

inline constexpr int kNewestMinor = 15;

inline bool IsNewerThanKnown(const Version& version) {
  return version.major == 3 && version.minor > kNewestMinor;
}

}  // namespace probing::cpython
