#include "cluster/finding.h"

#include <algorithm>
#include <optional>
#include <set>

#include "cluster/etcd.h"
#include "cluster/sources.h"
#include "cluster/together.h"

namespace probing::cluster {
namespace {

using Kind = wire::PeerSource::Kind;

constexpr std::int64_t kFreshNs = 5'000'000'000;
constexpr std::int64_t kFailedNs = 1'000'000'000;
constexpr std::int64_t kLookupMs = 5000;
constexpr std::int64_t kLostNs = 60'000'000'000;  // a thread that looks for so long could not be started

}  // namespace

struct Finding::Lookup {
  std::mutex mutex;
  bool is_running = false;
  std::int64_t began_ns = 0;   // MonotonicNs
  std::int64_t looked_ns = 0;  // MonotonicNs
  std::optional<Findings> found;
  std::optional<Etcd> etcd;  // used by the one thread that looks

  // Whether a thread should look now; then it is running.
  bool Begin() {
    const std::lock_guard lock(mutex);
    const std::int64_t now_ns = MonotonicNs();
    if (is_running && now_ns - began_ns < kLostNs) return false;
    if (found && now_ns - looked_ns < (found->problems.empty() ? kFreshNs : kFailedNs)) return false;
    began_ns = now_ns;
    return is_running = true;
  }

  void End(Findings findings) {
    const std::lock_guard lock(mutex);
    // What was known before an error may still be so.
    if (findings.seeds.empty() && found) findings.seeds = std::move(found->seeds);
    found = std::move(findings);
    looked_ns = MonotonicNs();
    is_running = false;
  }
};

std::shared_ptr<Finding::Lookup> Finding::LookupFor(const wire::PeerSource& source,
                                                    const Surroundings& around) {
  std::string key = source.ToText();
  if (source.kind == Kind::kTcpStore) {  // another job, another answer
    for (const Surroundings::Meeting& meeting : around.meetings)
      key += " " + meeting.store.ToText() + "/" + meeting.run_id;
  }
  std::shared_ptr<Lookup>& lookup = lookups_[key];
  if (lookup == nullptr) {
    lookup = std::make_shared<Lookup>();
    if (source.kind == Kind::kEtcd) lookup->etcd.emplace(source.address, source.prefix, instance_);
  }
  return lookup;
}

Findings Finding::Find(const Wanted& wanted, const Deadline& deadline) {
  std::vector<std::pair<wire::PeerSource, std::shared_ptr<Lookup>>> lookups;
  std::vector<std::function<bool()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    for (const wire::PeerSource& source : wanted.sources) {
      if (source.kind == Kind::kAddress || source.kind == Kind::kSlurm) continue;
      std::shared_ptr<Lookup> lookup = LookupFor(source, wanted.around);
      if (lookup->Begin()) {
        tasks.emplace_back([lookup, source, around = wanted.around] {
          const Deadline end = Deadline::AfterMs(kLookupMs);
          lookup->End(source.kind == Kind::kDns ? FromDns(source)
                      : source.kind == Kind::kTcpStore
                          ? FromStores(source, around, end)
                          : FromEtcd(source.ToText(), *lookup->etcd, around.own, end));
          return true;
        });
      }
      lookups.emplace_back(source, std::move(lookup));
    }
    std::erase_if(lookups_, [&](const auto& each) {
      return std::ranges::none_of(lookups, [&](const auto& used) { return used.second == each.second; });
    });
  }
  if (!tasks.empty()) (void)Together(std::move(tasks), deadline);

  Findings all;
  std::set<std::string> known;
  const auto add = [&](Findings found) {
    for (Seed& seed : found.seeds) {
      if (known.insert(seed.address.ToText()).second) all.seeds.push_back(std::move(seed));
    }
    all.problems.merge(found.problems);
  };
  for (const wire::PeerSource& source : wanted.sources) {
    if (source.kind == Kind::kAddress) add({.seeds = {{source.address, "list"}}, .problems = {}});
    if (source.kind == Kind::kSlurm) add(FromNodeLists(wanted.around));
  }
  for (const auto& [source, lookup] : lookups) {
    const std::lock_guard lock(lookup->mutex);
    add(lookup->found ? *lookup->found : Nobody(source.ToText(), "is still being looked up"));
  }
  return all;
}

}  // namespace probing::cluster
