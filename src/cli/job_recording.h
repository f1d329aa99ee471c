// One profile of all ranks of a job, sampled at the same moments on this host and on others.
#pragma once

#include "base/result.h"
#include "cli/command.h"
#include "flame/profile.h"
#include "flame/view.h"

namespace probing::cli {

struct JobRecording {
  flame::Profile profile;   // its threads have ranks
  bool is_partial = false;  // ranks are missing; stderr has said which and why
};

// Ranks of this host are sampled by one recorder, those of others by the probingd there, from the same moment
// on and at the same moments: by its clock, as far as the difference is known. ^C ends it; what other hosts
// have recorded until then is lost. Completes the view: title, sources, and who the others of --against are.
// REQUIRES: invocation.job.
Result<JobRecording> RecordJob(const Invocation& invocation, flame::View& view);

}  // namespace probing::cli
