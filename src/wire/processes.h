// Where probingd answers which Python processes run on its host.
#pragma once

#include <string_view>

namespace probing::wire {

// GET: {processes: [{pid, command, job, role, rank, probed, state, cpu_percent, rss, doing}]}.
inline constexpr std::string_view kProcessesRoute = "/api/v1/processes";

}  // namespace probing::wire
