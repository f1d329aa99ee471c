// Collector: which rows of which rings are due, and writes them.
//
// Rows become due when a quarter of their ring is new, when they have waited for the interval, or
// when nobody will write to the ring any more. What was written before is read off the names of the
// files, so it does not matter who wrote them and how that one ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/scoped_fd.h"
#include "history/file_writer.h"
#include "history/messages.h"
#include "history/opened_ring.h"
#include "ring/reader.h"

namespace probing::history {

class Collector {
 public:
  explicit Collector(FileWriter& writer) : writer_(writer) {}

  // All rings there are. Those that are not among them any more are read for a last time.
  void SetRings(const std::vector<RingEntry>& entries, std::vector<ScopedFd> files);

  enum class Which { kDue, kAll };
  void Collect(Which which, std::int64_t interval_ns);

  std::vector<TableStatus> status() const;
  // Why the last file could not be written; "" when it could.
  const std::string& problem() const { return problem_; }

 private:
  struct Progress {
    ring::Cursor written;                   // behind what files have
    std::vector<table::HistoryFile> files;  // by lane and row
    std::uint64_t seen = 0;                 // of the ring's counter, when all of it was read
    std::int64_t last_ns = 0;               // when that was
    bool is_first = true;                   // nothing was collected yet
    TableStatus status;
  };
  struct Ring : OpenedRing {
    std::map<std::string, Progress> tables;
  };

  Progress& ProgressOf(Ring& ring, const ring::TableInfo& info);
  void CollectRing(Ring& ring, Which which, std::int64_t interval_ns);
  Result<void> CollectTable(Ring& ring, const ring::TableInfo& info, Progress& progress);
  void Commit(Progress& progress, const table::HistoryFile& file);
  void MergeSmallFiles(Progress& progress, std::uint64_t lane, const std::string& day);

  FileWriter& writer_;
  std::map<FileIdentity, Ring> rings_;
  std::int64_t retry_ns_ = 0;  // not before
  std::string problem_;
};

}  // namespace probing::history
