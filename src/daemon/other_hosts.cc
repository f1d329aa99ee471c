#include "daemon/other_hosts.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>

#include "base/clock.h"
#include "wire/node_list.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr std::int64_t kTellEveryNs = 10'000'000'000;

std::string VariableOf(const process::JobIdentity& identity, std::string_view name) {
  const auto found =
      std::ranges::find_if(identity.variables, [&](const auto& each) { return each.first == name; });
  return found == identity.variables.end() ? "" : found->second;
}

// Where torchrun's agents meet, and where the ranks do.
std::vector<wire::Address> StoresOf(const process::JobIdentity& identity) {
  std::string endpoint = VariableOf(identity, "PET_RDZV_ENDPOINT");
  if (!endpoint.empty() && endpoint.find(':') == std::string::npos)
    endpoint += ":29400";  // torchrun's default
  std::vector<wire::Address> stores;
  for (const std::string& text :
       {endpoint, VariableOf(identity, "MASTER_ADDR") + ":" + VariableOf(identity, "MASTER_PORT")}) {
    Result<wire::Address> store = wire::ParseAddress(text);
    if (store.ok() && !text.starts_with(':')) stores.push_back(std::move(*store));
  }
  return stores;
}

// The first address that others can use; on this machine alone when there is no other.
wire::Address OwnAddress(std::string_view setting) {
  Result<std::vector<wire::Address>> addresses = wire::ParseAddresses(setting == "none" ? "" : setting);
  if (!addresses.ok() || addresses->empty()) return {};
  const auto found =
      std::ranges::find_if(*addresses, [](const auto& each) { return !wire::IsLoopback(each.host); });
  return found == addresses->end() ? addresses->front() : *found;
}

template <typename T>
void AddOnce(std::vector<T>& list, T value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(std::move(value));
}

}  // namespace

OtherHosts::OtherHosts(asio::io_context& io, const Targets& targets, cluster::Members& members,
                       const wire::Settings& settings)
    : io_(io), targets_(targets), members_(members), settings_(settings), thread_(1) {}

cluster::Wanted OtherHosts::Wanted() const {
  cluster::Wanted wanted;
  Result<std::vector<wire::PeerSource>> sources = wire::ParsePeers(settings_.Get("probing.cluster.peers"));
  if (sources.ok()) wanted.sources = std::move(*sources);
  if (wanted.sources.empty()) return wanted;
  wanted.around.own = OwnAddress(settings_.Get("probing.server.addr"));
  if (const char* list = std::getenv("SLURM_JOB_NODELIST"); list != nullptr && *list != '\0')
    wanted.around.node_lists.emplace_back(list);
  for (const Target* target : targets_.Known()) {
    if (target->state == TargetState::kEnded || !target->may_request) continue;
    if (std::string list = VariableOf(target->identity, "SLURM_JOB_NODELIST"); !list.empty())
      AddOnce(wanted.around.node_lists, std::move(list));
    if (target->identity.role != process::JobRole::kRank) continue;
    const std::string run_id = VariableOf(target->identity, "TORCHELASTIC_RUN_ID");
    for (wire::Address& store : StoresOf(target->identity))
      AddOnce(wanted.around.meetings, {std::move(store), run_id});
  }
  return wanted;
}

cluster::GatheringOptions OtherHosts::Options() const {
  cluster::GatheringOptions options;
  options.wanted = Wanted();
  options.timeout_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.cluster.timeout") * 1000);
  options.max_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.cluster.max_bytes"));
  return options;
}

void OtherHosts::Watch() { asio::co_spawn(io_, KeepInTouch(), asio::detached); }

asio::awaitable<void> OtherHosts::KeepInTouch() {
  std::string told_of;
  std::int64_t told_ns = 0;
  while (true) {
    const std::string peers = std::string(settings_.Get("probing.cluster.peers")) + " " +
                              std::string(settings_.Get("probing.server.addr"));
    const bool is_time = peers != told_of || MonotonicNs() - told_ns >= kTellEveryNs;
    if (const cluster::GatheringOptions options = Options();
        is_time && !is_asking_ && !options.wanted.sources.empty()) {
      told_of = peers;
      told_ns = MonotonicNs();
      is_asking_ = true;
      asio::post(thread_, [this, options] {
        members_.KeepInTouch(options.wanted, Deadline::AfterMs(options.timeout_ms));
        asio::post(io_, [this] { is_asking_ = false; });
      });
    }
    asio::steady_timer timer(io_, kLookEvery);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace probing::daemon
