// A ring that somebody reads, and which of them there are.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/scoped_fd.h"
#include "history/messages.h"
#include "ring/reader.h"
#include "table/history_files.h"
#include "table/source.h"

namespace probing::history {

struct OpenedRing {
  RingEntry entry;
  table::Target about;
  table::RingId id;
  ring::Reader reader;
};

using FileIdentity = std::pair<dev_t, ino_t>;  // of the memory file

// Makes `rings` those of the list: new ones are opened, and given back are those that are not on it. `Ring`
// is an OpenedRing, with whatever its reader remembers about it.
template <typename Ring>
std::vector<Ring> UpdateRings(std::map<FileIdentity, Ring>& rings, const std::vector<RingEntry>& entries,
                              std::vector<ScopedFd> files) {
  std::set<FileIdentity> listed;
  for (std::size_t i = 0; i < entries.size() && i < files.size(); ++i) {
    struct stat info{};
    if (fstat(files[i].get(), &info) != 0) continue;
    const FileIdentity identity{info.st_dev, info.st_ino};
    listed.insert(identity);
    if (const auto known = rings.find(identity); known != rings.end()) {
      known->second.entry.ended = entries[i].ended;
      continue;
    }
    Result<ring::Reader> reader = ring::Reader::Open(std::move(files[i]));
    if (!reader.ok()) continue;  // queries say why
    const table::RingId id{entries[i].host, entries[i].pid, reader->created_ns()};
    Ring ring{{entries[i], {}, id, std::move(*reader)}, {}};
    ring.about.pid = entries[i].pid;
    ring.about.rank = entries[i].rank;
    ring.about.host = entries[i].host;
    rings.emplace(identity, std::move(ring));
  }
  std::vector<Ring> gone;
  for (auto it = rings.begin(); it != rings.end();) {
    const auto current = it++;
    if (listed.contains(current->first)) continue;
    gone.push_back(std::move(current->second));
    rings.erase(current);
  }
  return gone;
}

// Whether enough is new that waiting would mean losing it.
inline bool IsPressing(const ring::TableInfo& info, std::uint64_t pending) {
  return pending >= std::max<std::uint64_t>(info.rows_limit / 4, 1);
}

}  // namespace probing::history
