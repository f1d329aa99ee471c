#include "query/stored_source.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "table/history_files.h"
#include "table/registry.h"
#include "table/ring_pool.h"
#include "table/ring_source.h"
#include "table/rows.h"

namespace probing::query {
namespace {

using table::HistoryFile;
using table::Part;
using table::Target;

Result<ScopedFd> OpenFile(const std::string& directory, const HistoryFile& file) {
  const std::string path = directory + "/" + table::HistoryPath(file);
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoError("open the history file " + path);
  return fd;
}

// A file's rows are about a process that may be gone for long.
std::shared_ptr<const Target> TargetOf(const HistoryFile& file) {
  auto target = std::make_shared<Target>();
  target->pid = file.ring.pid;
  target->rank = file.rank;
  target->host = file.ring.host;
  // Files of processes outside a job are kept in a folder of this name, too.
  if (file.rank || file.job != "local") target->job = file.job;
  return target;
}

class StoredSource : public table::Source {
 public:
  StoredSource(const table::Table& table, HistoryReader& reader) : table_(table), reader_(reader) {}
  const table::Table& table() const override { return table_; }

  Result<std::vector<Part>> Parts(const table::ScanRequest& request) override {
    const auto shared = std::make_shared<const table::ScanRequest>(request);
    // One look at the files decides for every row where it is read: what they have is not read from
    // a ring, and what is written meanwhile is.
    std::vector<HistoryFile> files;
    if (request.history)
      files = table::ListHistory(request.history->directory,
                                 {.table = std::string(table_.name), .pid = request.history->pid});
    if (request.history && request.history->job)
      std::erase_if(files, [&](const HistoryFile& file) { return file.job != *request.history->job; });
    std::vector<Part> parts;
    for (const Target* target : request.targets) {
      for (const auto& fd : target->ring_fds) {
        for (Part& part : table::RingParts(table_, *target, fd, shared, StartOf(files, *target, *fd)))
          parts.push_back(std::move(part));
      }
    }
    for (HistoryFile& file : files) {
      if (file.max_ns < request.time.from_ns || file.min_ns > request.time.to_ns) continue;
      parts.push_back(FilePart(std::move(file), shared));
    }
    return parts;
  }

 private:
  static std::shared_ptr<const ring::Cursor> StartOf(const std::vector<HistoryFile>& files,
                                                     const Target& target, const ScopedFd& fd) {
    if (files.empty()) return nullptr;
    const Result<table::RingLease> ring = table::LeaseRing(fd);
    if (!ring.ok()) return nullptr;  // whoever reads it says why
    return std::make_shared<const ring::Cursor>(
        table::CursorBehind(files, {target.host, target.pid, ring.value()->created_ns()}));
  }

  Part FilePart(HistoryFile file, std::shared_ptr<const table::ScanRequest> request) {
    std::shared_ptr<const Target> target = TargetOf(file);
    const Target* about = target.get();
    return {about,
            [this, file = std::move(file), request = std::move(request),
             target = std::move(target)]() -> Result<std::unique_ptr<table::Cursor>> {
              ASSIGN_OR_RETURN(ScopedFd fd, OpenFile(request->history->directory, file));
              ASSIGN_OR_RETURN(ParquetStore * store, reader_.store());
              return store->Read(std::move(fd), table_, request->columns, request->time);
            }};
  }

  const table::Table& table_;
  HistoryReader& reader_;
};

bool IsCommon(std::string_view name) {
  return std::ranges::any_of(table::CommonColumns(),
                             [&](const table::Column& column) { return column.name == name; });
}

}  // namespace

Result<ParquetStore*> HistoryReader::store() {
  const std::lock_guard lock(mutex_);
  if (store_ == nullptr) {
    ASSIGN_OR_RETURN(store_, ParquetStore::Open(memory_bytes_));
  }
  return store_.get();
}

std::unique_ptr<table::Source> MakeStoredSource(const table::Table& table, HistoryReader& reader) {
  return std::make_unique<StoredSource>(table, reader);
}

void AddHistoryTables(const table::HistoryScope& history, HistoryReader& reader,
                      std::vector<std::shared_ptr<table::UserTable>>& tables) {
  for (const std::string& name : table::HistoryTables(history.directory)) {
    const std::string lower = LowerCase(name);
    if (!table::IsUserTableName(lower)) continue;
    const std::vector<HistoryFile> files =
        table::ListHistory(history.directory, {.table = name, .pid = history.pid});
    if (files.empty()) continue;
    // The last one knows the columns of the others, unless the job changed its mind.
    const Result<ScopedFd> fd = OpenFile(history.directory, files.back());
    const Result<ParquetStore*> store = reader.store();
    if (!fd.ok() || !store.ok()) continue;
    const Result<std::vector<FileColumn>> columns = (*store)->Columns(*fd);
    if (!columns.ok()) continue;
    auto found =
        std::ranges::find_if(tables, [&](const auto& table) { return table->table().name == lower; });
    if (found == tables.end()) found = tables.insert(tables.end(), std::make_shared<table::UserTable>(lower));
    for (const FileColumn& column : *columns) {
      if (!IsCommon(column.name) && table::IsUtf8(column.name)) (*found)->AddColumn(column.name, column.type);
    }
  }
}

}  // namespace probing::query
