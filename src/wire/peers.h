// What probing.cluster.peers takes: where the probingd of other hosts are, or who knows.
//
//   node[1-4]:3344         the addresses themselves (node_list.h)
//   slurm                  the hosts of SLURM_JOB_NODELIST, at our own port
//   dns:NAME:PORT          all addresses that the name has
//   tcpstore               the hosts of torchrun's agents, from the store that the ranks meet at
//   tcpstore:HOST:PORT     the same, from that store
//   etcd:HOST:PORT/PREFIX  addresses in etcd under that prefix; ours is put there, too
//
// Linked into the probe, so nothing here throws and no name is looked up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/address.h"

namespace probing::wire {

struct PeerSource {
  enum class Kind : std::uint8_t { kAddress, kSlurm, kDns, kTcpStore, kEtcd };
  Kind kind = Kind::kAddress;
  Address address;     // of who knows; port 0 for none
  std::string prefix;  // of etcd's keys

  std::string ToText() const;
  bool operator==(const PeerSource&) const = default;
};

// In the order they are written, each once; "none" and "" are none. kUsage says which part is wrong and what
// it should be.
Result<std::vector<PeerSource>> ParsePeers(std::string_view text);

}  // namespace probing::wire
