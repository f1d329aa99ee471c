// What a profile says, for a person: where the time went, in words.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/daemon_client.h"
#include "cli/query_client.h"

namespace probing::cli {

// Of the newest profile of `about` (a target, or a trace): {seconds, steps, ops, gpus: […], costs: [{us,
// text}], cpu: [text]}. kFailed when there is none.
Result<Json> ProfileReport(const Question& about);

std::string ProfileText(const Json& report);

}  // namespace probing::cli
