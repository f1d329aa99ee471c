#include "history/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "history/folders.h"

namespace probing::history {
namespace {

constexpr std::int64_t kStoreBytes = 128LL << 20;

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::Open(const std::string& directory, const std::string& host) {
  if (!directory.starts_with('/'))
    return Error{Code::kUsage, "the directory of the history is \"" + directory + "\"",
                 "it is an absolute path: probing config probing.data_dir=/…"};
  RETURN_IF_ERROR(MakeFolders("", directory.substr(1)));
  RETURN_IF_ERROR(MakeFolders(directory, ".tmp"));
  const std::string lock_path = directory + "/.lock~" + table::EscapeName(host);
  // At most one at a time, so that no row is written by two.
  ASSIGN_OR_RETURN(ScopedFd lock, LockFile(lock_path, directory));
  std::unique_ptr<FileWriter> writer(new FileWriter(directory, host, std::move(lock)));
  writer->RemoveTemporary();
  return writer;
}

std::string FileWriter::temporary_path() const {
  return directory_ + "/.tmp/" + table::EscapeName(host_) + ".parquet";
}

void FileWriter::RemoveTemporary() { unlink(temporary_path().c_str()); }

Result<query::ParquetStore*> FileWriter::Store() {
  if (store_ == nullptr) {
    ASSIGN_OR_RETURN(store_, query::ParquetStore::Open(kStoreBytes));
  }
  return store_.get();
}

Result<ScopedFd> FileWriter::OpenTemporary() {
  RETURN_IF_ERROR(MakeFolders(directory_, ".tmp"));  // somebody may have emptied the directory
  const std::string path = temporary_path();
  ScopedFd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return ErrnoError("write " + path);
  return file;
}

Result<table::HistoryFile> FileWriter::Write(Feed& feed, const table::HistoryFile& place) {
  ASSIGN_OR_RETURN(query::ParquetStore * store, Store());
  ASSIGN_OR_RETURN(const ScopedFd file, OpenTemporary());
  Result<void> written = store->Write(file, feed.columns(), feed);
  table::HistoryFile done = feed.file();
  done.job = place.job;
  done.rank = place.rank;
  done.day = place.day;
  done.table = place.table;
  done.ring = place.ring;
  if (written.ok()) written = Finish(file, done);
  if (!written.ok()) {
    RemoveTemporary();  // a full disk needs the room
    return written.error();
  }
  return done;
}

Result<table::HistoryFile> FileWriter::Merge(const std::vector<table::HistoryFile>& files) {
  ASSIGN_OR_RETURN(query::ParquetStore * store, Store());
  std::vector<ScopedFd> parts;
  table::HistoryFile merged = files.front();
  merged.rows = 0;
  for (const table::HistoryFile& file : files) {
    const std::string path = directory_ + "/" + table::HistoryPath(file);
    parts.emplace_back(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!parts.back().valid()) return ErrnoError("open " + path);
    merged.rows += file.rows;
    merged.min_ns = std::min(merged.min_ns, file.min_ns);
    merged.max_ns = std::max(merged.max_ns, file.max_ns);
  }
  ASSIGN_OR_RETURN(const ScopedFd file, OpenTemporary());
  Result<void> written = store->Merge(parts, file);
  if (written.ok()) written = Finish(file, merged);
  if (!written.ok()) {
    RemoveTemporary();
    return written.error();
  }
  return merged;
}

Result<void> FileWriter::Finish(const ScopedFd& file, const table::HistoryFile& as) {
  // On disk before it has its name: a file that counts is whole, also after a power failure.
  if (fdatasync(file.get()) != 0) return ErrnoError("write a history file to disk");
  const std::string path = directory_ + "/" + table::HistoryPath(as);
  // Twice: somebody who shares the directory may remove an empty folder in between.
  for (int attempt = 0;; ++attempt) {
    RETURN_IF_ERROR(MakeFolders(directory_, table::HistoryFolder(as)));
    if (rename(temporary_path().c_str(), path.c_str()) == 0) return {};
    if (errno != ENOENT || attempt > 0) return ErrnoError("rename a history file to " + path);
  }
}

}  // namespace probing::history
