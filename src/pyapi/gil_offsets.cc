#include "pyapi/gil_offsets.h"

#include "pyapi/measured_offsets.h"

namespace probing::pyapi {

std::optional<GilOffsets> FindGilOffsets(int version) {
  switch (version) {
    case 308:
      return Measured308();
    case 309:
      return Measured309();
    case 310:
      return Measured310();
    case 311:
      return Measured311();
    case 312:
      return Measured312();
    default:
      return std::nullopt;
  }
}

}  // namespace probing::pyapi
