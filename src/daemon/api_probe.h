// Questions to the probe inside of a target, for the routes that need one.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>

#include "daemon/api.h"
#include "wire/message.h"

namespace probing::daemon {

inline constexpr std::chrono::milliseconds kProbeTimeout{5000};  // for verbs that do next to nothing

// Says why when the target has ended, is stopped, or has no probe.
boost::asio::awaitable<Result<wire::Message>> AskProbe(Daemon& daemon, pid_t pid, wire::Message request,
                                                       std::chrono::milliseconds timeout = kProbeTimeout);

// The probe's fields as they come; integers become numbers.
server::Json FieldsToJson(const wire::Message& message);

}  // namespace probing::daemon
