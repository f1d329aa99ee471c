// A job that is known by files only: what torch's Flight Recorder wrote for each rank when it hung.
//
// `probing -t DIRECTORY query` and `diagnose` read such files (`_dump_RANK`, `nccl_trace_rank_RANK`, with or
// without .json or .pickle) as if the ranks were targets: the same tables, the same rules. Ranks have no
// process, so their pid is −1 − rank, and tables that are read from a process are empty. Files are untrusted:
// nothing in them is run.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ring/arena.h"
#include "table/rows.h"

namespace probing::daemon {

class RecordedJob {
 public:
  // Whether a file of the directory has the name of a recording.
  static bool IsIn(const std::string& directory);

  // An error when there are too many, or none can be read.
  static Result<std::shared_ptr<const RecordedJob>> Load(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const std::vector<table::Target>& targets() const { return targets_; }
  // Files that could not be read, as sentences.
  const std::vector<std::string>& problems() const { return problems_; }

  // Rows of a live table: probing.targets has the ranks (state: recorded, or missing when a group has a rank
  // without a file), all others have none.
  table::Rows Provide(const table::Table& table, const table::Target* target,
                      const std::vector<std::size_t>& columns) const;

 private:
  Result<void> Add(std::int64_t rank, const std::string& path);
  void AddMissing();

  std::string directory_;
  std::string name_;  // of the directory, without its path
  std::vector<std::unique_ptr<ring::Arena>> arenas_;
  std::vector<table::Target> targets_;
  std::set<std::int64_t> members_;  // ranks that some group has
  std::vector<std::string> problems_;
};

}  // namespace probing::daemon
