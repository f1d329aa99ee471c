// Reader: what somebody else's ring holds. See arena.h for the writing side.
//
//   ASSIGN_OR_RETURN(Reader reader, Reader::Open(ScopedFd(open("/proc/123/fd/7", O_RDONLY))));
//   for (const TableInfo& table : reader.Tables()) {
//     Scan scan = reader.StartScan(table, {.columns = {0, 2}});
//     for (Batch batch; scan.Next(&batch);) { … batch.Int64s(0) … }
//   }
//
// The writer is never slowed and never waited for; it may write, be killed or lie at any moment.
// Rows come out whole or not at all. One thread at a time; several Readers on one ring are fine,
// each with a descriptor of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ring/scan.h"
#include "ring/source.h"
#include "ring/texts.h"

namespace probing::ring {

struct TableCounters {
  std::uint64_t written = 0;      // rows, ever
  std::uint64_t overwritten = 0;  // of these; the others can be read
  std::uint64_t dropped = 0;      // not written: no lane or no memory
  std::uint64_t refused = 0;      // not written: a wrong type or too long
};

struct TableInfo {
  std::uint32_t id = 0;
  std::string name;
  std::vector<Column> columns;
  std::uint64_t rows_limit = 0;  // per lane
  std::uint32_t lanes = 0;
  TableCounters counters;
};

class Reader {
 public:
  static Result<Reader> Open(ScopedFd fd) { return FromSource(Source::Open(std::move(fd))); }
  static Result<Reader> FromBytes(const void* bytes, std::size_t size) {
    return FromSource(Source::FromBytes(bytes, size));
  }

  // Whose ring it is. In the writer's own pid namespace; a forked child that inherited the
  // descriptor shows its parent's.
  std::int64_t pid() const { return header_.pid; }
  std::uint64_t start_ticks() const { return header_.start_ticks; }
  std::int64_t created_ns() const { return header_.created_ns; }
  bool closed() const;  // the writer has left in good order
  std::uint64_t allocated_bytes() const;
  std::uint64_t max_bytes() const;

  // As they are now, in order of creation. What makes no sense is left out.
  std::vector<TableInfo> Tables();

  // The scan must not outlive the reader, nor survive another call of Tables() or StartScan().
  Scan StartScan(const TableInfo& table, ScanOptions options);

 private:
  Reader(Source source, FileHeader header);
  static Result<Reader> FromSource(Result<Source> source);

  void Refresh();
  bool ReadTable(const SegmentEntry& entry, TableInfo* table) const;
  void AddLane(const SegmentEntry& entry, std::vector<TableInfo>* tables) const;

  std::unique_ptr<Source> source_;  // at an address that scans keep
  FileHeader header_;
  std::vector<SegmentEntry> segments_;  // by index; kind 0 where there is none
  std::unique_ptr<Texts> texts_;
};

}  // namespace probing::ring
