#include "wire/peers.h"

#include <algorithm>

#include "base/text.h"
#include "wire/node_list.h"

namespace probing::wire {
namespace {

using Kind = PeerSource::Kind;

constexpr std::size_t kMaxPrefixBytes = 256;

Error NotASource(std::string_view text, const char* form) {
  return {Code::kUsage, "\"" + std::string(text) + "\" does not say where other hosts are", form};
}

// "HOST:PORT" with both: a port alone would be this machine's, which nobody means here.
Result<Address> WholeAddress(std::string_view item, std::string_view text, const char* form) {
  Result<Address> address = ParseAddress(text);
  if (!address.ok() || text.find(':') == 0 || text.find(':') == std::string_view::npos || text.front() == '*')
    return NotASource(item, form);
  return address;
}

Result<PeerSource> ParseEtcd(std::string_view item, std::string_view text) {
  constexpr const char* kForm = "it is etcd:HOST:PORT/PREFIX, as in etcd:10.0.0.1:2379/probing/my-job";
  PeerSource source{.kind = Kind::kEtcd, .address = {}, .prefix = {}};
  ASSIGN_OR_RETURN(source.address, WholeAddress(item, TakePart(text, '/'), kForm));
  const bool is_printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text.empty() || text.size() > kMaxPrefixBytes || !is_printable) return NotASource(item, kForm);
  source.prefix = text;
  return source;
}

}  // namespace

std::string PeerSource::ToText() const {
  switch (kind) {
    case Kind::kAddress:
      return address.ToText();
    case Kind::kSlurm:
      return "slurm";
    case Kind::kDns:
      return "dns:" + address.ToText();
    case Kind::kTcpStore:
      return address.port == 0 ? "tcpstore" : "tcpstore:" + address.ToText();
    case Kind::kEtcd:
      return "etcd:" + address.ToText() + "/" + prefix;
  }
  return "";
}

Result<std::vector<PeerSource>> ParsePeers(std::string_view text) {
  std::vector<PeerSource> sources;
  const auto add = [&](PeerSource source) {
    if (std::ranges::find(sources, source) == sources.end()) sources.push_back(std::move(source));
  };
  for (std::string_view rest = text == "none" ? "" : text; !rest.empty();) {
    const std::string_view item = TakeItem(rest);
    std::string_view value = item;
    const std::string_view word = TakePart(value, ':');
    if (word == "slurm") {
      if (item != word)
        return NotASource(item, "it is slurm, without anything: the port is that of probing.server.addr");
      add({.kind = Kind::kSlurm, .address = {}, .prefix = {}});
    } else if (item == "tcpstore") {
      add({.kind = Kind::kTcpStore, .address = {}, .prefix = {}});
    } else if (word == "tcpstore") {
      ASSIGN_OR_RETURN(Address address,
                       WholeAddress(item, value,
                                    "it is tcpstore or tcpstore:HOST:PORT, as MASTER_ADDR and "
                                    "MASTER_PORT of the ranks say"));
      add({.kind = Kind::kTcpStore, .address = std::move(address), .prefix = {}});
    } else if (word == "dns") {
      ASSIGN_OR_RETURN(Address address,
                       WholeAddress(item, value, "it is dns:NAME:PORT, as in dns:workers.training:3344"));
      add({.kind = Kind::kDns, .address = std::move(address), .prefix = {}});
    } else if (word == "etcd") {
      ASSIGN_OR_RETURN(PeerSource source, ParseEtcd(item, value));
      add(std::move(source));
    } else {
      Result<std::vector<Address>> addresses = ParseAddresses(item);
      if (!addresses.ok() || addresses->empty())
        return NotASource(item,
                          "it is HOST:PORT, node[1-4]:PORT, slurm, dns:NAME:PORT, tcpstore, "
                          "tcpstore:HOST:PORT or etcd:HOST:PORT/PREFIX");
      for (Address& address : *addresses)
        add({.kind = Kind::kAddress, .address = std::move(address), .prefix = {}});
    }
  }
  return sources;
}

}  // namespace probing::wire
