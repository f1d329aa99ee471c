#include "table/ring_source.h"

#include <algorithm>

#include "base/text.h"
#include "table/registry.h"
#include "table/ring_pool.h"
#include "table/rows.h"
#include "table/stored.h"

namespace probing::table {
namespace {

// Fewer rows are read faster by one thread than two can agree about them.
constexpr std::uint64_t kRowsPerPart = 100'000;
constexpr std::uint64_t kMaxParts = 16;

const ring::TableInfo* FindIn(const std::vector<ring::TableInfo>& tables, const Table& table) {
  const std::string name = LowerCase(table.name);
  const auto found =
      std::ranges::find_if(tables, [&](const ring::TableInfo& info) { return LowerCase(info.name) == name; });
  return found == tables.end() ? nullptr : &*found;
}

class RingCursor : public Cursor {
 public:
  // A table that is not in the ring has no rows.
  static Result<std::unique_ptr<Cursor>> Open(const ScopedFd& fd, const Table& table,
                                              const ScanRequest& request, const ring::Cursor* start,
                                              ring::Share share) {
    ASSIGN_OR_RETURN(RingLease reader, LeaseRing(fd));
    std::unique_ptr<RingCursor> cursor(new RingCursor(std::move(reader)));
    const std::vector<ring::TableInfo> tables = cursor->reader_->Tables();
    if (const ring::TableInfo* info = FindIn(tables, table)) {
      cursor->columns_.emplace(*info, table, request.columns);
      ring::ScanOptions options;
      options.columns = cursor->columns_->ring_columns();
      options.min_time_ns = request.time.from_ns;
      options.max_time_ns = request.time.to_ns;
      options.share = share;
      if (start != nullptr) {
        cursor->position_ = *start;
        options.cursor = &cursor->position_;
      }
      cursor->scan_.emplace(cursor->reader_->StartScan(*info, std::move(options)));
    }
    return std::unique_ptr<Cursor>(std::move(cursor));
  }

  Result<std::size_t> Next(std::span<ColumnOut> columns) override {
    while (scan_ && at_ == batch_.rows()) {
      at_ = 0;
      columns_->NewBatch();
      if (!scan_->Next(&batch_)) return std::size_t{0};
    }
    if (!scan_) return std::size_t{0};
    const std::size_t count = std::min(kBatchRows, batch_.rows() - at_);
    columns_->Put(batch_, at_, count, columns);
    at_ += count;
    return count;
  }

 private:
  explicit RingCursor(RingLease reader) : reader_(std::move(reader)) {}

  RingLease reader_;
  ring::Cursor position_;
  std::optional<BatchColumns> columns_;
  std::optional<ring::Scan> scan_;
  ring::Batch batch_;
  std::size_t at_ = 0;  // row of the batch that comes next
};

// How many parts the rows of a table are worth. A ring that cannot be read is one: it says why.
std::uint64_t PartCount(const Table& table, const ScopedFd& fd) {
  const Result<RingLease> reader = LeaseRing(fd);
  if (!reader.ok()) return 1;
  const std::vector<ring::TableInfo> tables = reader.value()->Tables();
  const ring::TableInfo* info = FindIn(tables, table);
  if (info == nullptr) return 1;
  const std::uint64_t rows = info->counters.written - info->counters.overwritten;
  return std::clamp<std::uint64_t>(rows / kRowsPerPart, 1, kMaxParts);
}

Result<Rows> ReadDrops(const Table& self, const Target& target, const std::vector<std::size_t>& columns) {
  Rows rows(TypesOf(self, columns));
  for (const auto& fd : target.ring_fds) {
    ASSIGN_OR_RETURN(const RingLease reader, LeaseRing(*fd));
    for (const ring::TableInfo& info : reader->Tables()) {
      const auto number = [](std::uint64_t value) { return Value(static_cast<std::int64_t>(value)); };
      const ring::TableCounters& counters = info.counters;
      const std::vector<Value> row{ToUtf8(info.name),
                                   number(info.rows_limit * info.lanes),
                                   number(counters.written - counters.overwritten),
                                   number(counters.written),
                                   number(counters.overwritten),
                                   number(counters.dropped + counters.refused)};
      std::vector<Value> picked;
      for (const std::size_t column : columns) picked.push_back(row[column]);
      rows.Add(std::move(picked));
    }
  }
  return rows;
}

}  // namespace

std::vector<ring::Column> RingColumns(const Table& table) {
  std::vector<ring::Column> columns;
  for (const Column& column : table.columns) columns.push_back(InRing(column));
  return columns;
}

std::vector<Part> RingParts(const Table& table, const Target& target,
                            const std::shared_ptr<const ScopedFd>& fd,
                            const std::shared_ptr<const ScanRequest>& request,
                            const std::shared_ptr<const ring::Cursor>& start) {
  std::vector<Part> parts;
  const auto count = static_cast<std::uint32_t>(PartCount(table, *fd));
  for (std::uint32_t i = 0; i < count; ++i) {
    parts.push_back({&target, [&table, fd, request, start, share = ring::Share{i, count}] {
                       return RingCursor::Open(*fd, table, *request, start.get(), share);
                     }});
  }
  return parts;
}

std::unique_ptr<Source> MakeDropsSource() {
  const Table* self = FindTable("probing.drops");
  return MakeRowsSource({self, [self](const Target* target, const std::vector<std::size_t>& columns) {
                           return ReadDrops(*self, *target, columns);
                         }});
}

}  // namespace probing::table
