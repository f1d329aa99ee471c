#include "cluster/members.h"

#include <nlohmann/json.hpp>
#include <set>

#include "cluster/peer_client.h"
#include "cluster/together.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

constexpr std::int64_t kFreshNs = 5'000'000'000;
// A page or a diagnosis asks many queries: one that hangs should not cost each of them its deadline.
constexpr std::int64_t kFailedNs = 1'000'000'000;
constexpr std::size_t kMaxNameBytes = 256;

std::string TextIn(const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, kMaxNameBytes) : "";
}

std::int64_t NumberIn(const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

// Asks it who it is and what time it has.
Member Greet(Member member, const std::string& token, const Deadline& deadline) {
  const std::int64_t sent_ns = WallNs();
  const std::int64_t sent_monotonic_ns = MonotonicNs();
  const Result<std::string> answer =
      AskPeer({.address = member.address, .path = std::string(wire::kNodeRoute), .token = token}, deadline);
  const std::int64_t trip_ns = MonotonicNs() - sent_monotonic_ns;
  if (!answer.ok()) {
    member.problem = answer.error().message;
    return member;
  }
  const nlohmann::json json = nlohmann::json::parse(*answer, nullptr, false);
  const std::int64_t its_ns = json.is_object() ? NumberIn(json, "wall_ns") : 0;
  if (its_ns <= 0 || TextIn(json, "instance").empty()) {
    member.problem = "is no probingd that knows of other hosts";
    return member;
  }
  member.instance = TextIn(json, "instance");
  member.host = TextIn(json, "host");
  member.version = TextIn(json, "version");
  member.ranks = NumberIn(json, "ranks");
  member.last_seen_ns = WallNs();
  // Its clock was read at some moment of the trip: in the middle of it, give or take half.
  const auto half_ns = static_cast<double>(trip_ns) / 2;
  member.clock_offset_ms = (static_cast<double>(its_ns) - static_cast<double>(sent_ns) - half_ns) / 1e6;
  member.clock_error_ms = half_ns / 1e6;
  member.problem.clear();
  return member;
}

}  // namespace

std::vector<Member> Members::Meet(const std::vector<wire::Address>& seeds, const Deadline& deadline) {
  std::vector<Member> asked;
  std::vector<std::function<Member()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    for (const wire::Address& seed : seeds) {
      const Member& member = members_.try_emplace(seed.ToText(), Member{.address = seed}).first->second;
      const std::int64_t age_ns = MonotonicNs() - member.last_asked_ns;
      if (member.last_asked_ns != 0 && age_ns < (member.problem.empty() ? kFreshNs : kFailedNs)) continue;
      asked.push_back(member);
      tasks.emplace_back([member, token = token_, deadline] { return Greet(member, token, deadline); });
    }
  }
  std::vector<std::optional<Member>> answers = Together(std::move(tasks), deadline);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) asked[i].problem = "did not answer in time";
    Member& member = answers[i] ? *answers[i] : asked[i];
    member.last_asked_ns = MonotonicNs();
    members_[member.address.ToText()] = member;
  }
  std::vector<Member> met;
  std::set<std::string> instances{instance_};
  for (const wire::Address& seed : seeds) {
    const Member& member = members_[seed.ToText()];
    // Who has never answered is somebody: nobody knows who.
    if (member.instance.empty() || instances.insert(member.instance).second) met.push_back(member);
  }
  return met;
}

void Members::NoteProblem(const wire::Address& address, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(address.ToText());
  if (found == members_.end()) return;
  found->second.problem = problem;
  found->second.last_asked_ns = MonotonicNs();
}

}  // namespace probing::cluster
