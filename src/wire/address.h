// Network addresses as people write them.
//
//   127.0.0.1:3344   [::1]:3344   localhost:3344   node7.cluster:3344
//   3344, :3344      that port of 127.0.0.1: nobody means the whole world by leaving something out
//   *:3344           all interfaces
//
// Linked into the probe, so nothing here throws and no name is looked up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::wire {

struct Address {
  std::string host;  // a name or an IP literal, without brackets
  std::uint16_t port = 0;

  std::string ToText() const;
  bool operator==(const Address&) const = default;
};

// kUsage for anything else. Port 0 is refused: nobody could find it.
Result<Address> ParseAddress(std::string_view text);

// Strictly: four decimal numbers without leading zeros, or IPv6. So "0177.0.0.1" is a name.
bool IsIpLiteral(const std::string& host);
// 127.0.0.0/8, ::1 and the name localhost.
bool IsLoopback(const std::string& host);

// What PROBE_ADDR, PROBING_ADDR and PROBING_PORT ask for, nothing when none is set. `variable` gives
// the value of one, "" for none.
std::optional<Result<Address>> AddressFromVariables(
    const std::function<std::string(const char* name)>& variable);

}  // namespace probing::wire
