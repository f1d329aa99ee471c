// Profiles as the answers of wire/contract.h.
#pragma once

#include "observe/stacks/recorder.h"
#include "server/router.h"

namespace probing::daemon {

// Everything: tables of frames, stacks and threads, and the samples as columns.
server::Json ProfileToJson(const observe::Recorder& recorder);

// How often each stack was seen: [{pid, tid, thread_name, stack, on_cpu, has_gil, weight}].
server::Json FoldedToJson(const flame::Profile& profile);

// What was not stored.
server::Json LossesToJson(const flame::Losses& losses);

}  // namespace probing::daemon
