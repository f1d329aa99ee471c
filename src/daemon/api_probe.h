// Questions to the probe inside of a target, for the routes that need one.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

#include "daemon/api.h"
#include "wire/message.h"

namespace probing::daemon {

inline constexpr std::chrono::milliseconds kProbeTimeout{5000};  // for verbs that do next to nothing

// Says why when the target has ended, is stopped, or has no probe.
boost::asio::awaitable<Result<wire::Message>> AskProbe(Daemon& daemon, pid_t pid, wire::Message request,
                                                       std::chrono::milliseconds timeout = kProbeTimeout);

// The probe's fields as they come; integers become numbers.
server::Json FieldsToJson(const wire::Message& message);

template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace probing::daemon
