// What follows from when the events of a trace were: which operator is around which, how much of its time is
// its own, which one started a kernel.
//
// On one thread events nest: one that begins within another is part of it. A kernel belongs to the call that
// has its correlation, and so to the innermost operator around that call; a kernel without such a call to the
// operator of its "External id". (Some profilers write the correlation there, too, which then means nothing:
// so the call comes first.)
#pragma once

#include "trace/events.h"

namespace probing::trace {

// Fills in what events.h says is found here; `ops` and `gpu` are in the order of time then.
void Arrange(Events& events);

}  // namespace probing::trace
