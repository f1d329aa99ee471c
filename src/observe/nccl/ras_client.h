// Asks NCCL's RAS port, which every process of a job opens on localhost:28028 (NCCL 2.24 and later), or where
// NCCL_RAS_ADDR of its environment says. Read-only: the state of the communicators is asked for, nothing set.
//
// Security (docs/guides/security.md): only processes of our own user and namespaces are believed, only
// addresses of this host are connected to, and whoever listens there has to be of our user too. The answer is
// bounded in time and size.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::observe {

inline constexpr std::uint16_t kRasPort = 28028;

struct RasAddress {
  std::string host;  // an IP literal, or "localhost"
  std::uint16_t port = kRasPort;

  std::string ToText() const;
  auto operator<=>(const RasAddress&) const = default;
};

// Where the RAS port of a process with this environment would be; nothing when it is switched off
// (NCCL_RAS_ENABLE=0). An address that is a name or no address at all is an error. `environment` is as in
// /proc: NAME=value, each ended by a zero byte.
Result<std::optional<RasAddress>> ParseRasAddress(std::string_view environment);

// The same of a process; nothing when it is not of our user and namespaces.
Result<std::optional<RasAddress>> RasAddressOf(pid_t pid);

// Whether this host has the address (an IP literal).
bool IsLocalAddress(const std::string& address);

// The answer to VERBOSE STATUS; nothing when nobody listens there, which is found out at once.
Result<std::optional<std::string>> AskRas(const RasAddress& address);

}  // namespace probing::observe
