// torch's TCPStore, read only.
//
// The ranks of a job meet in it, so we are guests who must not be noticed: one key is asked for (CHECK), and
// read (GET) only when it is there, because a GET of one that is not waits, and is waited for, in the store.
// Nothing is ever written, added, waited for or deleted. Both of torch's servers (libuv and the older one)
// understand this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "wire/address.h"

namespace probing::cluster {

// The value of a key; nothing when it is not there.
Result<std::optional<std::string>> ReadStore(const wire::Address& store, const std::string& key,
                                             const Deadline& deadline);

// Where torchrun's agents (--rdzv-backend=c10d) note who takes part in the run of that name.
std::string RendezvousKey(const std::string& run_id);

// The hosts that such a value names, each once: `addr` of every node in a pickled state. The pickle is read
// word by word and nothing of it is executed. Empty when it is something else.
std::vector<std::string> AgentHosts(const std::string& value);

}  // namespace probing::cluster
