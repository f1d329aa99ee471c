// Where other hosts are, from all that probing.cluster.peers names (wire/peers.h).
//
// What somebody else knows (DNS, torch's store, etcd) is looked up on threads of its own, at most every few
// seconds, and remembered: who asks waits until its deadline and no longer, and gets what was found last. All
// that is found are addresses, of hosts that are asked themselves before they count. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "wire/address.h"
#include "wire/peers.h"

namespace probing::cluster {

// What this host knows without asking anybody.
struct Surroundings {
  struct Meeting {
    wire::Address store;  // where torchrun's agents meet (--rdzv-endpoint), or the ranks (MASTER_ADDR)
    std::string run_id;   // TORCHELASTIC_RUN_ID; "" for none
    bool operator==(const Meeting&) const = default;
  };
  std::vector<std::string> node_lists;  // SLURM_JOB_NODELIST, ours and those of targets
  std::vector<Meeting> meetings;        // of probed ranks
  wire::Address own;                    // where others reach us; port 0 when they do not
};

struct Wanted {
  std::vector<wire::PeerSource> sources;
  Surroundings around;
};

struct Seed {
  wire::Address address;
  std::string found_by;  // "list", "slurm", "dns:workers:3344"
};

struct Findings {
  std::vector<Seed> seeds;                      // each once
  std::map<std::string, std::string> problems;  // by source: why it leads to nobody, or not to all
};

class Finding {
 public:
  // `instance` is ours: the name of our key in etcd.
  explicit Finding(std::string instance) : instance_(std::move(instance)) {}

  Findings Find(const Wanted& wanted, const Deadline& deadline);

 private:
  struct Lookup;  // shared by this and the thread that looks

  std::shared_ptr<Lookup> LookupFor(const wire::PeerSource& source, const Surroundings& around);

  const std::string instance_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Lookup>> lookups_;  // by what is looked up
};

}  // namespace probing::cluster
