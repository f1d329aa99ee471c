// One finding for each cause: those that only follow from another one are put below it.
#pragma once

#include <vector>

#include "server/router.h"

namespace probing::daemon {

// A rank that died, called something else or is stuck keeps the others of its job waiting: their hang follows
// from that. What follows goes into the field `also` of its cause, as {class, ranks, evidence}. Then errors
// come first, and of these what began first (`since_ns`). REQUIRES: each has class, rule, job, ranks,
// severity.
std::vector<server::Json> FoldFindings(std::vector<server::Json> findings);

}  // namespace probing::daemon
