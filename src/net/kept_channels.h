// Connections that are kept open for the next question: to dial anew takes three round trips and, encrypted,
// some milliseconds of work on both sides. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/channel.h"
#include "wire/address.h"

namespace probing::net {

class KeptChannels {
 public:
  // It is the caller's until it is kept again: one that failed is not. The other side may have closed it
  // meanwhile.
  std::optional<Channel> Take(const wire::Address& address);
  void Keep(const wire::Address& address, Channel channel);

 private:
  struct Kept {
    Channel channel;
    std::int64_t since_ns;  // MonotonicNs
  };
  std::mutex mutex_;
  std::map<std::string, std::vector<Kept>> by_address_;
};

}  // namespace probing::net
