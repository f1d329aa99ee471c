// What probing.torch.profiling takes, as people write it:
//
//   off
//   on[,rate=0.05][,backward=off][,collectives=off][,nan=on][,census=on][,modules=encoder.*,…]
//     [,exprs=loss@train,…]
//   steps[,…]     only the steps, no modules
//   full[,…]      modules in every step: on,rate=1
//
// An item without '=' belongs to the list before it. Linked into the probe: nothing throws.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::wire {

// Checks it and writes it the one way it is stored and shown: options in the order above, without
// spaces. An error says which part is wrong and what would be right.
Result<std::string> CanonicalTorchSpec(std::string_view text);

}  // namespace probing::wire
