#include "cluster/sources.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "cluster/tcp_store.h"
#include "wire/node_list.h"

namespace probing::cluster {
namespace {

constexpr const char* kNoPort =
    "names hosts without a port, and we have none: set probing.server.addr, as in *:3344, on every host";

}  // namespace

Findings Nobody(const std::string& source, const std::string& problem) {
  return {.seeds = {}, .problems = {{source, problem}}};
}

Findings FromNodeLists(const Surroundings& around) {
  if (around.node_lists.empty())
    return Nobody("slurm", "neither probingd nor a probed process has SLURM_JOB_NODELIST");
  if (around.own.port == 0) return Nobody("slurm", kNoPort);
  Findings found;
  for (const std::string& list : around.node_lists) {
    const Result<std::vector<std::string>> hosts = wire::ParseHosts(list);
    if (!hosts.ok()) found.problems["slurm"] = "SLURM_JOB_NODELIST: " + hosts.error().message;
    for (const std::string& host : hosts.ok() ? *hosts : std::vector<std::string>())
      found.seeds.push_back({{host, around.own.port}, "slurm"});
  }
  return found;
}

Findings FromDns(const wire::PeerSource& source) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int failed = getaddrinfo(source.address.host.c_str(), nullptr, &wish, &first);
  if (failed != 0)
    return Nobody(source.ToText(), "cannot find " + source.address.host + ": " + gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(first, &freeaddrinfo);
  Findings found;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) ==
        0)
      found.seeds.push_back({{host.data(), source.address.port}, source.ToText()});
  }
  return found;
}

namespace {

struct StoreFindings {
  Findings found;
  bool has_agents = false;
  bool was_read = false;
};

// The agents that torchrun's rendezvous names there. When it names none: the host of the store itself, which
// is one of the job's in any case.
StoreFindings FromStore(const Surroundings::Meeting& meeting, std::uint16_t port, const Deadline& deadline) {
  const std::string name = "tcpstore:" + meeting.store.ToText();
  StoreFindings result{.found = {}, .was_read = meeting.run_id.empty()};
  if (!meeting.run_id.empty()) {
    const Result<std::optional<std::string>> state =
        ReadStore(meeting.store, RendezvousKey(meeting.run_id), deadline);
    result.was_read = state.ok();
    if (!state.ok()) result.found.problems[name] = state.error().message;
    for (const std::string& host : state.ok() && *state ? AgentHosts(**state) : std::vector<std::string>()) {
      if (wire::ParseAddress(host + ":1").ok()) result.found.seeds.push_back({{host, port}, name});
    }
  }
  result.has_agents = !result.found.seeds.empty();
  if (!result.has_agents)
    result.found.seeds.push_back({{meeting.store.host, port}, name + ", which names its own host only"});
  return result;
}

}  // namespace

// A run may have several stores: where its agents meet and where its ranks do. The first that names agents
// has the word, and one that can be read is enough.
Findings FromStores(const wire::PeerSource& source, const Surroundings& around, const Deadline& deadline) {
  if (around.own.port == 0) return Nobody(source.ToText(), kNoPort);
  std::vector<Surroundings::Meeting> meetings;
  for (Surroundings::Meeting meeting : around.meetings) {
    if (source.address.port != 0) meeting.store = source.address;
    if (std::ranges::find(meetings, meeting) == meetings.end()) meetings.push_back(std::move(meeting));
  }
  if (meetings.empty() && source.address.port != 0) meetings.push_back({source.address, ""});
  if (meetings.empty()) return Nobody(source.ToText(), "no probed rank says MASTER_ADDR and MASTER_PORT");
  std::map<std::string, StoreFindings> runs;
  for (const Surroundings::Meeting& meeting : meetings) {
    StoreFindings& run = runs[meeting.run_id];
    if (run.has_agents) continue;
    StoreFindings some = FromStore(meeting, around.own.port, deadline);
    if (some.has_agents) run.found.seeds.clear();
    std::ranges::move(some.found.seeds, std::back_inserter(run.found.seeds));
    run.found.problems.merge(some.found.problems);
    run.has_agents = some.has_agents;
    run.was_read = run.was_read || some.was_read;
  }
  Findings found;
  for (auto& [run_id, run] : runs) {
    std::ranges::move(run.found.seeds, std::back_inserter(found.seeds));
    if (!run.was_read) found.problems.merge(run.found.problems);
  }
  return found;
}

Findings FromEtcd(const std::string& name, Etcd& etcd, const wire::Address& own, const Deadline& deadline) {
  Findings found;
  // Who cannot be reached has nothing to say, but may look.
  const Result<void> announced = own.port == 0 ? Result<void>() : etcd.Announce(own, deadline);
  if (!announced.ok()) found.problems[name] = announced.error().message;
  Result<std::vector<wire::Address>> addresses = etcd.List(deadline);
  if (!addresses.ok()) return Nobody(name, addresses.error().message);
  for (wire::Address& address : *addresses) found.seeds.push_back({std::move(address), name});
  if (found.seeds.empty() && found.problems.empty())
    found.problems[name] = "no host has put its address there";
  return found;
}

}  // namespace probing::cluster
