#include "net/kept_channels.h"

#include "base/clock.h"

namespace probing::net {
namespace {

constexpr std::int64_t kMaxAgeNs = 60'000'000'000;  // the other side waits for two minutes
constexpr std::size_t kMostOfOne = 2;               // a probingd has room for 400

}  // namespace

std::optional<Channel> KeptChannels::Take(const wire::Address& address) {
  const std::int64_t oldest_ns = MonotonicNs() - kMaxAgeNs;
  const std::lock_guard lock(mutex_);
  for (auto& [name, kept] : by_address_)
    std::erase_if(kept, [&](const Kept& one) { return one.since_ns < oldest_ns; });
  std::erase_if(by_address_, [](const auto& entry) { return entry.second.empty(); });
  const auto found = by_address_.find(address.ToText());
  if (found == by_address_.end()) return std::nullopt;
  Channel channel = std::move(found->second.back().channel);
  found->second.pop_back();
  return channel;
}

void KeptChannels::Keep(const wire::Address& address, Channel channel) {
  const std::lock_guard lock(mutex_);
  std::vector<Kept>& kept = by_address_[address.ToText()];
  if (kept.size() < kMostOfOne) kept.push_back({std::move(channel), MonotonicNs()});
}

}  // namespace probing::net
