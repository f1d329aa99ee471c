// One question to another host's probingd.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "wire/address.h"

namespace probing::cluster {

struct PeerRequest {
  wire::Address address;
  std::string path;
  std::string body;                 // JSON, sent with POST; "" is a GET
  std::string token;                // "" for none
  std::size_t max_bytes = 1 << 20;  // of the answer
};

struct PeerAnswer {
  std::string body;
  std::string instance;  // of the probingd that gave it; "" when it does not say
  // Of the request and the answer alone, without what it took to connect.
  std::int64_t sent_ns = 0;  // wall time
  std::int64_t trip_ns = 0;
};

// An answer with status 200; anything else is an error. Encrypted beyond this machine, to a
// certificate that is known (net/channel.h). Blocks until the deadline, and longer only to look up a name.
Result<PeerAnswer> AskPeer(const PeerRequest& request, const Deadline& deadline);

}  // namespace probing::cluster
