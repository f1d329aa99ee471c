// Who the other hosts' probingd are.
//
// Seeds lead to them (finding.h); a probingd finds itself among these by a number that it drew when it
// started, and leaves itself out; one that several seeds lead to is counted once. Each that is asked who it
// is also says whom it knows, and who asks says where it can be asked itself: so one seed is enough. What is
// said are addresses and nothing else: whoever is there is asked itself, with our token, before it counts,
// and there are never more than kMaxIntroduced. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/finding.h"
#include "wire/address.h"

namespace probing::cluster {

inline constexpr std::size_t kMaxIntroduced = 4096;

struct Member {
  std::string node;  // its address; of somebody unknown what should have led to it: "dns:workers:3344"
  wire::Address address;
  std::string found_by;  // "list", "slurm", …, "introduced"
  std::string instance;  // drawn by that probingd; "" while it has never answered
  std::string host;
  std::string version;
  std::int64_t ranks = 0;
  std::int64_t last_seen_ns = 0;      // on our clock; 0: never
  std::int64_t last_asked_ns = 0;     // MonotonicNs
  std::int64_t last_answered_ns = 0;  // MonotonicNs
  std::int64_t introduced_ns = 0;     // MonotonicNs, the last time; 0 for seeds
  bool introduced_itself = false;
  int failures = 0;                // in a row
  double clock_offset_ms = 0;      // how far its clock is ahead of ours
  double clock_error_ms = 0;       // how wrong that may be
  std::string problem;             // why it did not answer last time; "" when it did
  std::vector<std::string> knows;  // addresses, as it said; untrusted

  // Why its rows may not be understood; "" when it is of our version.
  std::string VersionProblem() const;
};

class Members {
 public:
  // `instance` is drawn anew by each probingd; `token` is the secret it shows to others, "" for none.
  Members(std::string instance, std::string token)
      : instance_(instance), token_(std::move(token)), finding_(std::move(instance)) {}

  const std::string& instance() const { return instance_; }
  const std::string& token() const { return token_; }

  // Changes whenever the set of those that answer does: by one that comes, goes, or was started anew.
  std::int64_t epoch() const;

  // Those that are wanted, and whom they know, without ourselves. Whom we have not heard of for some seconds
  // is asked who it is; all at once, until the deadline. What should have led to somebody and did not is
  // among them, with its problem.
  std::vector<Member> Meet(const Wanted& wanted, const Deadline& deadline);

  // The same for a few of them, so that they know of us, and those that came to us: now and then, so that a
  // question finds all of them known.
  void KeepInTouch(const Wanted& wanted, const Deadline& deadline);

  // Somebody who asked us says that it can be asked there; `host` is where the question came from.
  void Introduce(const std::string& address_untrusted, const std::string& host);

  // Whom we tell others of: those that answer.
  std::vector<std::string> Known() const;

  // It failed later: for a moment it is not asked again.
  void NoteProblem(const Member& member, const std::string& problem);
  // It answered, and is another one than it was.
  void NoteRestart(const Member& member, const std::string& instance);

 private:
  enum class Whom : std::uint8_t { kAll, kFew };
  void Find(const Wanted& wanted, const Deadline& deadline);
  // False when there is nobody to ask.
  bool Ask(Whom whom, const wire::Address& own, const Deadline& deadline);
  // REQUIRES of all below: the mutex is held.
  bool IsDue(const Member& member, Whom whom) const;
  void AddIntroduced(const std::string& address_untrusted, const std::string& by_host, bool by_itself);
  void ForgetTheLost();
  void CountEpoch();

  const std::string instance_;
  const std::string token_;
  Finding finding_;
  mutable std::mutex mutex_;
  std::vector<wire::PeerSource> sources_;  // that the members came from
  std::vector<std::string> seeds_;         // their addresses, in order
  std::map<std::string, std::string> problems_;
  std::map<std::string, Member> members_;  // by address
  std::set<std::string> answering_;        // instances
  std::int64_t epoch_ = 1;
};

}  // namespace probing::cluster
