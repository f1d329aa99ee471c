#include "cluster/members.h"

#include <algorithm>

#include "cluster/greeting.h"
#include "cluster/together.h"

namespace probing::cluster {
namespace {

constexpr std::int64_t kFreshNs = 5'000'000'000;
// A page or a diagnosis asks many queries: one that hangs should not cost each of them its deadline.
constexpr std::int64_t kFailedNs = 1'000'000'000;
// Somebody whom others named and who has never answered: doubled each time, up to some minutes.
constexpr int kMaxDoublings = 8;
// One that answered once, and whom others named, is missed for so long.
constexpr std::int64_t kMissedNs = 600'000'000'000;
// Who came to us, or answered us, in this time is named to others.
constexpr std::int64_t kRecentNs = 60'000'000'000;
constexpr std::size_t kFew = 4;
constexpr std::size_t kMaxAtOnce = 512;  // in the background, each on a thread of its own; the rest next time
constexpr int kHops = 3;
constexpr const char* kIntroduced = "introduced";

bool IsAnywhere(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

std::string Member::VersionProblem() const {
  if (version.empty() || version == PROBING_VERSION) return "";
  return "is of version " + version + ", this is " PROBING_VERSION ": what it sends may not be understood";
}

std::int64_t Members::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

void Members::Find(const Wanted& wanted, const Deadline& deadline) {
  Findings found = finding_.Find(wanted, deadline);
  const std::lock_guard lock(mutex_);
  // Whom the others knew is another question now; who came to us before our first look is not.
  if (!sources_.empty() && wanted.sources != sources_)
    std::erase_if(members_, [](const auto& each) { return each.second.introduced_ns != 0; });
  sources_ = wanted.sources;
  seeds_.clear();
  for (Seed& seed : found.seeds) {
    const std::string node = seed.address.ToText();
    Member& member = members_.try_emplace(node, Member{.node = node, .address = seed.address}).first->second;
    member.found_by = std::move(seed.found_by);
    member.introduced_ns = 0;
    seeds_.push_back(node);
  }
  problems_ = std::move(found.problems);
  ForgetTheLost();
}

void Members::ForgetTheLost() {
  const std::int64_t now_ns = MonotonicNs();
  const std::set<std::string> seeds(seeds_.begin(), seeds_.end());
  std::erase_if(members_, [&](const auto& each) {
    const Member& member = each.second;
    if (seeds.contains(each.first)) return false;
    const std::int64_t heard_ns = std::max(member.introduced_ns, member.last_answered_ns);
    return member.introduced_ns == 0 || now_ns - heard_ns > kMissedNs;
  });
}

bool Members::IsDue(const Member& member, Whom whom) const {
  if (whom == Whom::kFew && member.introduced_ns != 0 && !member.introduced_itself) return false;
  if (member.last_asked_ns == 0) return true;
  const std::int64_t age_ns = MonotonicNs() - member.last_asked_ns;
  if (member.problem.empty()) return age_ns >= (whom == Whom::kFew ? kRecentNs : kFreshNs);
  const bool is_stranger = member.introduced_ns != 0 && member.instance.empty();
  return age_ns >= kFailedNs << (is_stranger ? std::min(member.failures, kMaxDoublings) : 0);
}

bool Members::Ask(Whom whom, const wire::Address& own, const Deadline& deadline) {
  const std::string from = own.port == 0 ? "" : own.ToText();
  std::vector<Member> asked;
  std::vector<std::function<Member()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    // The first seeds are the same everywhere: they know all others.
    const auto end = whom == Whom::kFew ? std::min(kFew, seeds_.size()) : seeds_.size();
    const std::set<std::string> seeds(seeds_.begin(), seeds_.begin() + static_cast<std::ptrdiff_t>(end));
    for (const auto& [node, member] : members_) {
      const bool is_introduced = member.introduced_ns != 0;
      if (!is_introduced && !seeds.contains(node)) continue;
      if (!IsDue(member, is_introduced ? whom : Whom::kAll)) continue;
      if (whom == Whom::kFew && tasks.size() == kMaxAtOnce) break;
      asked.push_back(member);
      tasks.emplace_back(
          [member, from, token = token_, deadline] { return Greet(member, from, token, deadline); });
    }
  }
  if (tasks.empty()) return false;
  std::vector<std::optional<Member>> answers = Together(std::move(tasks), deadline);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto found = members_.find(asked[i].node);
    if (found == members_.end()) continue;
    if (!answers[i]) {
      asked[i].problem = "did not answer in time";
      asked[i].last_asked_ns = MonotonicNs();
      ++asked[i].failures;
    }
    Member& member = found->second;
    const Member before = std::exchange(member, answers[i] ? std::move(*answers[i]) : std::move(asked[i]));
    member.introduced_ns = before.introduced_ns;  // both may have changed meanwhile
    member.found_by = before.found_by;
    for (const std::string& address : std::exchange(member.knows, {}))
      AddIntroduced(address, member.address.host, false);
  }
  CountEpoch();
  return true;
}

// Loopback is another machine for each: an address there means something only to who is there, too. And
// what is said there is not encrypted.
void Members::AddIntroduced(const std::string& address_untrusted, const std::string& by_host,
                            bool by_itself) {
  Result<wire::Address> address = wire::ParseAddress(address_untrusted);
  if (!address.ok()) return;
  if (IsAnywhere(address->host)) {
    if (!by_itself) return;
    address->host = by_host;
  }
  if (wire::IsLoopback(address->host) && !wire::IsLoopback(by_host)) return;
  const std::string node = address->ToText();
  const auto found = members_.find(node);
  if (found != members_.end()) {
    if (found->second.introduced_ns != 0) found->second.introduced_ns = MonotonicNs();
    found->second.introduced_itself = found->second.introduced_itself || by_itself;
    return;
  }
  if (members_.size() >= seeds_.size() + kMaxIntroduced) return;
  Member member{.node = node, .address = std::move(*address), .found_by = kIntroduced};
  member.introduced_ns = MonotonicNs();
  member.introduced_itself = by_itself;
  members_.emplace(node, std::move(member));
}

void Members::Introduce(const std::string& address_untrusted, const std::string& host) {
  const std::lock_guard lock(mutex_);
  AddIntroduced(address_untrusted, host, true);
}

std::vector<std::string> Members::Known() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> known;
  std::set<std::string> instances{instance_};
  const std::int64_t now_ns = MonotonicNs();
  for (const auto& [node, member] : members_) {
    const std::int64_t heard_ns =
        std::max(member.last_answered_ns, member.introduced_itself ? member.introduced_ns : 0);
    if (member.instance.empty() || !member.problem.empty() || now_ns - heard_ns > kRecentNs) continue;
    if (known.size() < kMaxIntroduced && instances.insert(member.instance).second) known.push_back(node);
  }
  return known;
}

void Members::CountEpoch() {
  std::set<std::string> answering;
  for (const auto& [node, member] : members_) {
    if (member.problem.empty() && !member.instance.empty() && member.instance != instance_)
      answering.insert(member.instance);
  }
  if (answering == answering_) return;
  answering_ = std::move(answering);
  ++epoch_;
}

std::vector<Member> Members::Meet(const Wanted& wanted, const Deadline& deadline) {
  // Who hangs should leave some time: for the others to be asked, and for those they name.
  Find(wanted, Deadline::AfterNs(deadline.left_ns() / 3));
  Ask(Whom::kAll, wanted.around.own, Deadline::AfterNs(deadline.left_ns() / 4 * 3));
  for (int hop = 1; hop < kHops && !deadline.passed(); ++hop) {
    if (!Ask(Whom::kAll, wanted.around.own, deadline)) break;
  }
  const std::lock_guard lock(mutex_);
  std::vector<Member> met;
  std::set<std::string> instances{instance_};
  const auto add = [&](const Member& member) {
    if (member.instance.empty() || instances.insert(member.instance).second) met.push_back(member);
  };
  for (const std::string& node : seeds_) {  // who never answered is somebody: nobody knows who
    if (const auto found = members_.find(node); found != members_.end()) add(found->second);
  }
  for (const auto& [node, member] : members_) {
    if (member.introduced_ns != 0 && !member.instance.empty()) add(member);
  }
  for (const auto& [source, problem] : problems_)
    met.push_back({.node = source, .address = {}, .problem = problem});
  return met;
}

void Members::KeepInTouch(const Wanted& wanted, const Deadline& deadline) {
  Find(wanted, Deadline::AfterNs(deadline.left_ns() / 2));
  Ask(Whom::kFew, wanted.around.own, deadline);
}

void Members::NoteProblem(const Member& member, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(member.node);
  if (found == members_.end()) return;
  found->second.problem = problem;
  found->second.last_asked_ns = MonotonicNs();
  CountEpoch();
}

void Members::NoteRestart(const Member& member, const std::string& instance) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(member.node);
  if (found == members_.end()) return;
  found->second.instance = instance;
  found->second.last_asked_ns = 0;  // it is asked again: much may be new
  CountEpoch();
}

}  // namespace probing::cluster
