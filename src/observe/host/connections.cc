#include "observe/host/connections.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/clock.h"
#include "base/file.h"

namespace probing::observe {
namespace {

constexpr std::size_t kMost = 64;            // connections of one target
constexpr std::int64_t kShare = 200;         // a look takes at most one of so many parts of the time
constexpr std::size_t kMostSockets = 4'096;  // that are looked for in one process
constexpr std::string_view kSocket = "socket:[";

std::optional<double> Milliseconds(Number us) {
  if (!us) return std::nullopt;
  return static_cast<double>(*us) / 1000;
}

bool HasTraffic(const ConnectionLook& look) {
  return look.sent_bytes.value_or(0) > 0 || look.received_bytes.value_or(0) > 0 || look.unsent_bytes > 0 ||
         look.busy_ms.value_or(0) > 0;
}

}  // namespace

std::vector<ConnectionLook> ConnectionWatch::Look(
    const std::vector<ino_t>& sockets, const std::unordered_map<ino_t, TcpConnection>& connections) {
  for (auto& [inode, counters] : counters_) counters.seen = false;
  std::vector<ConnectionLook> looks;
  for (const ino_t inode : sockets) {
    const auto found = connections.find(inode);
    if (found == connections.end()) continue;
    const TcpConnection& now = found->second;
    Counters& counters = counters_[inode];
    counters.seen = true;
    ConnectionLook look{.local = now.local, .remote = now.remote};
    look.sent_bytes = counters.sent_bytes.Step(now.sent_bytes);
    look.received_bytes = counters.received_bytes.Step(now.received_bytes);
    look.retransmissions = counters.retransmissions.Step(now.retransmissions);
    look.busy_ms = Milliseconds(counters.busy_us.Step(now.busy_us));
    look.peer_limited_ms = Milliseconds(counters.peer_limited_us.Step(now.peer_limited_us));
    look.unsent_bytes = now.unsent_bytes;
    look.rtt_ms = static_cast<double>(now.rtt_us) / 1000;
    look.min_rtt_ms = Milliseconds(now.min_rtt_us);
    look.delivery_rate = now.delivery_rate;
    if (HasTraffic(look)) looks.push_back(std::move(look));
  }
  std::erase_if(counters_, [](const auto& entry) { return !entry.second.seen; });
  if (looks.size() > kMost) {
    std::nth_element(looks.begin(), looks.begin() + kMost, looks.end(),
                     [](const ConnectionLook& a, const ConnectionLook& b) {
                       return a.busy_ms.value_or(0) > b.busy_ms.value_or(0);
                     });
    looks.resize(kMost);
  }
  return looks;
}

void NetworkSpaces::BeginTick() {
  std::erase_if(spaces_, [](const auto& entry) { return !entry.second.is_used; });
  for (auto& [inode, space] : spaces_) space.is_fresh = space.is_used = false;
}

const std::unordered_map<ino_t, TcpConnection>* NetworkSpaces::Connections(const std::string& proc_folder) {
  const std::string path = proc_folder + "/ns/net";
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return nullptr;
  auto found = spaces_.find(info.st_ino);
  if (found == spaces_.end()) found = spaces_.emplace(info.st_ino, Space{TcpTable::Open(path), {}}).first;
  Space& space = found->second;
  space.is_used = true;
  const std::int64_t begun_ns = MonotonicNs();
  if (!space.is_fresh && space.table.ok() && begun_ns >= space.next_ns) {
    Result<std::unordered_map<ino_t, TcpConnection>> connections = space.table->Read();
    const std::int64_t end_ns = MonotonicNs();
    space.next_ns = end_ns + (end_ns - begun_ns) * kShare;
    space.is_fresh = connections.ok();
    if (connections.ok()) space.connections = std::move(*connections);
  }
  return space.is_fresh ? &space.connections : nullptr;
}

std::vector<ino_t> SocketsOf(const std::string& proc_folder) {
  std::vector<ino_t> sockets;
  const Result<std::vector<std::string>> names = ListDirectory(proc_folder + "/fd");
  if (!names.ok()) return sockets;
  for (const std::string& name : *names) {
    // The link only: to look at the file itself may take for ever (a file system that hangs).
    const Result<std::string> link = ReadLink(proc_folder + "/fd/" + name);
    if (!link.ok() || !link->starts_with(kSocket) || !link->ends_with(']')) continue;
    const std::string_view number = std::string_view(*link).substr(kSocket.size());
    const Number inode = ParseNumber(number.substr(0, number.size() - 1));
    if (inode) sockets.push_back(static_cast<ino_t>(*inode));
    if (sockets.size() >= kMostSockets) break;
  }
  return sockets;
}

}  // namespace probing::observe
