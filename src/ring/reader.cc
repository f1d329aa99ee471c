#include "ring/reader.h"

#include <algorithm>
#include <cstring>

namespace probing::ring {
namespace {

// A NUL-terminated name in `bytes` bytes of the file; "" when it is not one of ours.
std::string ReadName(const Source& source, std::uint64_t at, std::size_t bytes) {
  char name[sizeof(TableHeader::name)];
  static_assert(sizeof(TableHeader::name) >= AlignUp(sizeof(ColumnEntry::name), 8));
  if (!source.Copy(at, (bytes + 7) / 8, name)) return "";
  const std::size_t length = strnlen(name, bytes);
  if (!NameIsUsable({name, length}, bytes - 1)) return "";
  return {name, length};
}

bool IsKind(const SegmentEntry& entry, SegmentKind kind) {
  return entry.kind == static_cast<std::uint32_t>(kind);
}

}  // namespace

Reader::Reader(Source source, FileHeader header)
    : source_(std::make_unique<Source>(std::move(source))),
      header_(header),
      texts_(std::make_unique<class Texts>(source_.get())) {}

Result<Reader> Reader::FromSource(Result<Source> source) {
  if (!source.ok()) return std::move(source.error());
  FileHeader header{};
  header.magic = source->GetAcquire<std::uint64_t>(offsetof(FileHeader, magic));
  if (header.magic != kMagic || !source->Contains(0, kFirstSegmentOffset)) {
    return Error{Code::kFailed, "this is not a ring", "its process may have only just begun: try again"};
  }
  header.version = source->Get<std::uint32_t>(offsetof(FileHeader, version));
  header.byte_order = source->Get<std::uint32_t>(offsetof(FileHeader, byte_order));
  if (header.version != kFormatVersion || header.byte_order != kByteOrder) {
    return Error{Code::kFailed,
                 "the ring has format " + std::to_string(header.version) + ", this program reads " +
                     std::to_string(kFormatVersion),
                 "use the same version of probing on both sides: eject, then inject again"};
  }
  header.pid = source->Get<std::int64_t>(offsetof(FileHeader, pid));
  header.start_ticks = source->Get<std::uint64_t>(offsetof(FileHeader, start_ticks));
  header.created_ns = source->Get<std::int64_t>(offsetof(FileHeader, created_ns));
  return Reader(std::move(*source), header);
}

bool Reader::closed() const { return source_->Get<std::uint32_t>(offsetof(FileHeader, closed)) != 0; }
std::uint64_t Reader::allocated_bytes() const {
  return source_->Get<std::uint64_t>(offsetof(FileHeader, allocated_bytes));
}
std::uint64_t Reader::max_bytes() const {
  return source_->Get<std::uint64_t>(offsetof(FileHeader, max_bytes));
}

void Reader::Refresh() {
  segments_.clear();
  // What cannot be read anew is shown as it was.
  static_cast<void>(source_->Refresh().ok());
  const std::uint32_t count =
      std::min(source_->GetAcquire<std::uint32_t>(offsetof(FileHeader, segment_count)), kMaxSegments);
  for (std::uint32_t index = 0; index < count; ++index) {
    const std::optional<SegmentEntry> entry = ReadSegmentEntry(*source_, index);
    if (!entry) continue;
    if (IsKind(*entry, SegmentKind::kDictionary)) texts_->SetDictionary(*entry);
    segments_.push_back(*entry);
  }
}

bool Reader::ReadTable(const SegmentEntry& entry, TableInfo* table) const {
  const std::uint64_t at = entry.offset;
  const auto columns = source_->Get<std::uint32_t>(at + offsetof(TableHeader, columns));
  if (columns == 0 || columns > kMaxColumns ||
      entry.size < sizeof(TableHeader) + columns * sizeof(ColumnEntry)) {
    return false;
  }
  table->id = entry.table;
  table->name = ReadName(*source_, at + offsetof(TableHeader, name), sizeof(TableHeader::name));
  if (table->name.empty()) return false;
  for (std::uint32_t i = 0; i < columns; ++i) {
    const std::uint64_t column_at = at + sizeof(TableHeader) + i * sizeof(ColumnEntry);
    const auto type = source_->Get<std::uint8_t>(column_at + offsetof(ColumnEntry, type));
    std::string name = ReadName(*source_, column_at, sizeof(ColumnEntry::name));
    if (name.empty() || !TypeIsKnown(type)) return false;
    table->columns.push_back(Column{std::move(name), static_cast<ColumnType>(type)});
  }
  if (table->columns[0].type != ColumnType::kTimestamp) return false;
  table->rows_limit = source_->Get<std::uint64_t>(at + offsetof(TableHeader, rows_limit));
  table->counters.written = source_->Get<std::uint64_t>(at + offsetof(TableHeader, gone_written));
  table->counters.overwritten = source_->Get<std::uint64_t>(at + offsetof(TableHeader, gone_overwritten));
  table->counters.dropped = source_->Get<std::uint64_t>(at + offsetof(TableHeader, dropped));
  table->counters.refused = source_->Get<std::uint64_t>(at + offsetof(TableHeader, refused));
  return true;
}

void Reader::AddLane(const SegmentEntry& entry, std::vector<TableInfo>* tables) const {
  for (TableInfo& table : *tables) {
    if (table.id != entry.table) continue;
    ++table.lanes;
    table.counters.written += source_->Get<std::uint64_t>(entry.offset + offsetof(LaneHeader, written));
    table.counters.overwritten +=
        source_->Get<std::uint64_t>(entry.offset + offsetof(LaneHeader, overwritten));
    return;
  }
}

std::vector<TableInfo> Reader::Tables() {
  Refresh();
  std::vector<TableInfo> tables;
  for (const SegmentEntry& entry : segments_) {
    TableInfo table;
    if (!IsKind(entry, SegmentKind::kTable) || !ReadTable(entry, &table)) continue;
    const bool twice = std::any_of(tables.begin(), tables.end(), [&](const TableInfo& other) {
      return other.id == table.id || other.name == table.name;
    });
    if (!twice) tables.push_back(std::move(table));
  }
  for (const SegmentEntry& entry : segments_) {
    if (IsKind(entry, SegmentKind::kLane)) AddLane(entry, &tables);
  }
  std::sort(tables.begin(), tables.end(), [](const TableInfo& a, const TableInfo& b) { return a.id < b.id; });
  return tables;
}

Scan Reader::StartScan(const TableInfo& table, ScanOptions options) {
  Refresh();
  Scan scan(source_.get(), texts_.get(), table.columns, std::move(options));
  for (const SegmentEntry& entry : segments_) {
    if (IsKind(entry, SegmentKind::kLane) && entry.table == table.id) scan.AddLane(entry);
  }
  return scan;
}

}  // namespace probing::ring
