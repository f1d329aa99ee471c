// Who the other hosts' probingd are.
//
// They are named by a list of seeds (probing.cluster.peers), the same on every host. A probingd finds itself
// in it by a number that it drew when it started, and leaves itself out; one that several seeds lead to is
// counted once. Nothing is kept open. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "wire/address.h"

namespace probing::cluster {

struct Member {
  wire::Address address;
  std::string instance;  // drawn by that probingd; "" while it has never answered
  std::string host;
  std::string version;
  std::int64_t ranks = 0;
  std::int64_t last_seen_ns = 0;   // on our clock; 0: never
  std::int64_t last_asked_ns = 0;  // MonotonicNs
  double clock_offset_ms = 0;      // how far its clock is ahead of ours
  double clock_error_ms = 0;       // how wrong that may be
  std::string problem;             // why it did not answer last time; "" when it did
};

class Members {
 public:
  // `instance` is drawn anew by each probingd; `token` is the secret it shows to others, "" for none.
  Members(std::string instance, std::string token)
      : instance_(std::move(instance)), token_(std::move(token)) {}

  const std::string& instance() const { return instance_; }
  const std::string& token() const { return token_; }

  // Those that the seeds lead to, without ourselves. Whom we have not heard of for some seconds is asked who
  // it is; all at once, until the deadline.
  std::vector<Member> Meet(const std::vector<wire::Address>& seeds, const Deadline& deadline);

  // It failed later: for a moment it is not asked again.
  void NoteProblem(const wire::Address& address, const std::string& problem);

 private:
  const std::string instance_;
  const std::string token_;
  std::mutex mutex_;
  std::map<std::string, Member> members_;  // by address
};

}  // namespace probing::cluster
