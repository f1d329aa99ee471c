#include "cluster/greeting.h"

#include <nlohmann/json.hpp>

#include "cluster/peer_client.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

std::string TextIn(const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, kMaxNameBytes) : "";
}

std::int64_t NumberIn(const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::vector<std::string> TextsIn(const nlohmann::json& json, const char* field) {
  std::vector<std::string> texts;
  const auto found = json.find(field);
  if (found == json.end() || !found->is_array()) return texts;
  for (const nlohmann::json& each : *found) {
    if (texts.size() == kMaxIntroduced) break;
    if (each.is_string()) texts.push_back(each.get<std::string>().substr(0, kMaxNameBytes));
  }
  return texts;
}

}  // namespace

Member Greet(Member member, const std::string& own, const std::string& token, const Deadline& deadline) {
  const std::string path = std::string(wire::kNodeRoute) + (own.empty() ? "" : "?from=" + own);
  const Result<PeerAnswer> answer =
      AskPeer({.address = member.address, .path = path, .token = token}, deadline);
  member.last_asked_ns = MonotonicNs();
  member.knows.clear();
  ++member.failures;
  if (!answer.ok()) {
    member.problem = answer.error().message;
    return member;
  }
  const nlohmann::json json = nlohmann::json::parse(answer->body, nullptr, false);
  const std::int64_t its_ns = json.is_object() ? NumberIn(json, "wall_ns") : 0;
  if (its_ns <= 0 || TextIn(json, "instance").empty()) {
    member.problem = "is no probingd that knows of other hosts";
    return member;
  }
  member.failures = 0;
  member.instance = TextIn(json, "instance");
  member.host = TextIn(json, "host");
  member.version = TextIn(json, "version");
  member.ranks = NumberIn(json, "ranks");
  member.knows = TextsIn(json, "knows");
  member.last_seen_ns = WallNs();
  member.last_answered_ns = member.last_asked_ns;
  // Its clock was read at some moment of the trip: in the middle of it, give or take half.
  const auto half_ns = static_cast<double>(answer->trip_ns) / 2;
  member.clock_offset_ms =
      (static_cast<double>(its_ns) - static_cast<double>(answer->sent_ns) - half_ns) / 1e6;
  member.clock_error_ms = half_ns / 1e6;
  member.problem.clear();
  return member;
}

}  // namespace probing::cluster
