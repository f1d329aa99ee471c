// A job that is known by files only: what torch's Flight Recorder wrote for each rank when it hung, traces of
// torch.profiler, a snapshot of torch.cuda.memory, or an incident file of ours (src/incident), in which
// processes keep their numbers and live tables have the rows of then.
//
// `probing -t DIRECTORY query` and `diagnose` read such files (`_dump_RANK`, `nccl_trace_rank_RANK`, with or
// without .json or .pickle; `*.pt.trace.json`, with or without .gz) as if the ranks were targets: the same
// tables, the same rules. A trace may also be named itself, whatever it is called. Ranks have no
// process, so their pid is −1 − rank, and tables that are read from a process are empty. Files are untrusted:
// nothing in them is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "incident/contents.h"
#include "ring/arena.h"
#include "table/rows.h"
#include "trace/rows.h"

namespace probing::daemon {

class RecordedJob {
 public:
  // Whether it is a file, or a directory in which one has the name of a recording or of a trace.
  static bool IsIn(const std::string& path);

  // An error when there are too many, or none can be read. Of each trace `most_events` are.
  static Result<std::shared_ptr<const RecordedJob>> Load(const std::string& path, std::size_t most_events);

  const std::string& path() const { return path_; }
  // Whether the file, or the directory, is still as it was when it was read.
  bool IsCurrent() const { return VersionOf(path_) == version_; }
  const std::vector<table::Target>& targets() const { return targets_; }
  // Files that could not be read, as sentences.
  const std::vector<std::string>& problems() const { return problems_; }
  // Null unless it is an incident file.
  const incident::Contents* incident() const { return incident_.get(); }

  // Rows of a live table: probing.targets has the ranks (state: recorded, or missing when a group has a rank
  // without a file), all others have none.
  table::Rows Provide(const table::Table& table, const table::Target* target,
                      const std::vector<std::size_t>& columns) const;

 private:
  static std::string VersionOf(const std::string& path);
  Result<void> Load(std::size_t most_events);
  Result<void> LoadRecordings();
  Result<void> Add(std::int64_t rank, const std::string& path);
  Result<void> AddTrace(const std::string& path, std::size_t most_events);
  Result<void> AddMemorySnapshot(const std::string& path, std::int64_t taken_ns, std::size_t most_blocks);
  void AddTarget(std::optional<std::int64_t> rank, const std::string& host, trace::Rings rings);
  void AddMissing();
  void CompareVersions();

  std::string path_;     // of the directory, or of the trace
  std::string name_;     // of the same, without what is before it
  std::string version_;  // of what was read
  std::vector<std::unique_ptr<ring::Arena>> arenas_;
  std::vector<table::Target> targets_;
  std::set<std::int64_t> members_;                             // ranks that some group has
  std::map<std::string, std::vector<std::int64_t>> versions_;  // of the format: ranks
  std::vector<std::string> problems_;
  std::unique_ptr<const incident::Contents> incident_;
};

}  // namespace probing::daemon
