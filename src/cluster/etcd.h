// Addresses in etcd, by its JSON gateway over plain HTTP (3.4 and newer).
//
// Every probingd puts its own address under the prefix, with a lease that ends when nobody renews it for a
// minute: a host that has gone is forgotten there. Without TLS and without a password: for an etcd inside of
// the job's network. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "wire/address.h"

namespace probing::cluster {

class Etcd {
 public:
  // `key` is our own below the prefix, another one for each probingd.
  Etcd(wire::Address server, std::string prefix, std::string key)
      : server_(std::move(server)), prefix_(std::move(prefix)), key_(std::move(key)) {}

  // Says where we are, and how long that holds. A host of 0.0.0.0 is the one that etcd sees us by.
  Result<void> Announce(wire::Address own, const Deadline& deadline);

  // What is there. Values that are no addresses are left out.
  Result<std::vector<wire::Address>> List(const Deadline& deadline) const;

 private:
  Result<void> Put(const wire::Address& own, const Deadline& deadline);

  const wire::Address server_;
  const std::string prefix_;
  const std::string key_;
  std::string lease_;      // "" while there is none
  std::string announced_;  // under it
};

}  // namespace probing::cluster
