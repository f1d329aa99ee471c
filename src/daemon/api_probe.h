// Questions to the probe inside of a target, for the routes that need one.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>

#include "daemon/api.h"
#include "daemon/probe_link.h"
#include "wire/message.h"

namespace probing::daemon {

inline constexpr std::chrono::milliseconds kProbeTimeout{5000};  // for verbs that do next to nothing

// Says why when the target has ended, is stopped, or has no probe.
boost::asio::awaitable<Result<wire::Message>> AskProbe(Daemon& daemon, pid_t pid, wire::Message request,
                                                       std::chrono::milliseconds timeout = kProbeTimeout,
                                                       ProbeLink::OnPartial on_partial = nullptr);

// Evaluate() of api.h, where what the code prints comes while it runs.
boost::asio::awaitable<Result<server::Json>> EvaluateAloud(Daemon& daemon, const server::Request& request,
                                                           ProbeLink::OnPartial on_partial);

// GET repl, a WebSocket: api_repl.cc.
boost::asio::awaitable<void> Repl(Daemon& daemon, const server::Request& request,
                                  const server::Receive& receive, const server::Send& send);

// The probe's fields as they come; integers become numbers.
server::Json FieldsToJson(const wire::Message& message);

}  // namespace probing::daemon
