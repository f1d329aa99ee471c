// FileWriter: history files that are there as a whole or not at all.
//
// A file is written under another name in DIR/.tmp and gets its own by rename when it is complete
// and on disk. Whoever is killed before leaves a file in .tmp, which the next one removes.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "history/feed.h"
#include "query/parquet_store.h"
#include "table/history_files.h"

namespace probing::history {

class FileWriter {
 public:
  // Makes the directory when it is not there; it is the user's alone then. Fails while another process
  // of this host writes into it.
  static Result<std::unique_ptr<FileWriter>> Open(const std::string& directory, const std::string& host);

  // The current file of `feed`. `place` says job, rank, day, table and ring; the result says all.
  Result<table::HistoryFile> Write(Feed& feed, const table::HistoryFile& place);

  // One file instead of several. REQUIRES: each begins where the one before it ends. The old ones
  // stay, but count no more (table::ListHistory).
  Result<table::HistoryFile> Merge(const std::vector<table::HistoryFile>& files);

  const std::string& directory() const { return directory_; }

 private:
  FileWriter(std::string directory, std::string host, ScopedFd lock)
      : directory_(std::move(directory)), host_(std::move(host)), lock_(std::move(lock)) {}
  Result<query::ParquetStore*> Store();
  Result<ScopedFd> OpenTemporary();
  Result<void> Finish(const ScopedFd& file, const table::HistoryFile& as);
  void RemoveTemporary();
  std::string temporary_path() const;

  std::string directory_;
  std::string host_;
  ScopedFd lock_;
  std::unique_ptr<query::ParquetStore> store_;  // opened by the first file
};

}  // namespace probing::history
