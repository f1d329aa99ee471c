// Who asks, and what they may do: read < profile < eval < own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace probing::server {

enum class Right : std::uint8_t {
  kNone,
  kRead,     // ask: tables, stacks, settings
  kProfile,  // + record, which holds threads for microseconds
  kEval,     // + run code in targets, change settings, eject
  kOwn,      // + the daemon itself: stop it, see its tokens. Only over the unix socket
};

// "none", "read", "profile", "eval", "own".
std::string_view RightName(Right right);
std::optional<Right> RightFromName(std::string_view name);

// The other end of a connection, as far as the kernel knows it.
struct Peer {
  enum class Via : std::uint8_t { kUnix, kTcp };
  Via via = Via::kUnix;
  std::string address;        // without the port; "" for kUnix
  std::optional<uid_t> uid;   // of unix sockets, and of TCP peers on this machine
  std::string local_address;  // the one it connected to
  std::uint16_t local_port = 0;
  bool is_encrypted = false;

  // The same user, or root.
  bool IsOwner() const;
  // For logs: "uid 1000", "10.0.0.7".
  std::string ToText() const;
};

}  // namespace probing::server
