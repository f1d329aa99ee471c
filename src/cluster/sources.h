// What each form of probing.cluster.peers leads to, looked up now (finding.h remembers it). They block, until
// the deadline, and a look into DNS as long as that takes.
#pragma once

#include <string>

#include "base/clock.h"
#include "cluster/etcd.h"
#include "cluster/finding.h"
#include "wire/peers.h"

namespace probing::cluster {

// Nothing was found, and why.
Findings Nobody(const std::string& source, const std::string& problem);

Findings FromNodeLists(const Surroundings& around);
Findings FromDns(const wire::PeerSource& source);
// What agents of torchrun have put into the stores of the job.
Findings FromStores(const wire::PeerSource& source, const Surroundings& around, const Deadline& deadline);
// Puts our own address there, too.
Findings FromEtcd(const std::string& name, Etcd& etcd, const wire::Address& own, const Deadline& deadline);

}  // namespace probing::cluster
