// Bounds of metrics, as in "loss>10,acc1<0.2": what is out of the ordinary.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing::wire {

struct Bound {
  std::string name;
  bool is_upper = true;  // crossed by values above `number`, else by those below
  double number = 0;

  bool IsCrossed(double value) const { return is_upper ? value > number : value < number; }
  std::string ToText() const;
};

// "none" and "" are none. A name has no comma, blank, < or >.
Result<std::vector<Bound>> ParseBounds(std::string_view text);

}  // namespace probing::wire
