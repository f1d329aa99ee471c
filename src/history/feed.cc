#include "history/feed.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "store/schema.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::history {
namespace {

constexpr std::uint64_t kMaxRowsInFile = 1'000'000;

}  // namespace

Feed::Feed(ring::Reader& reader, const ring::TableInfo& info, ring::Cursor behind, const table::Target& about)
    : about_(about), table_(LowerCase(info.name)), behind_(std::move(behind)) {
  for (const ring::Column& column : info.columns) {
    if (table::IsUtf8(column.name)) table_.AddColumn(column.name, table::FromRing(column.type));
  }
  const std::span<const table::Column> own = table_.table().columns;
  for (const table::Column& column : own) columns_.push_back({std::string(column.name), column.type});
  own_columns_ = columns_.size();
  for (const table::Column& common : table::CommonColumns()) {
    if (common.name == store::kJob)
      continue;  // a folder of files has it in its name, a store in a column of its own
    const auto has_it = [&](const query::FileColumn& column) {
      return LowerCase(column.name) == common.name;
    };
    if (std::ranges::none_of(columns_, has_it)) columns_.push_back({std::string(common.name), common.type});
  }
  std::vector<std::size_t> all(own.size());
  std::iota(all.begin(), all.end(), 0);
  batch_columns_.emplace(info, table_.table(), all);
  ring::ScanOptions options;
  options.columns = batch_columns_->ring_columns();
  options.cursor = &behind_;
  scan_.emplace(reader.StartScan(info, std::move(options)));
}

bool Feed::Load() {
  if (at_ < batch_.rows()) return true;
  at_ = 0;
  batch_columns_->NewBatch();
  if (scan_->Next(&batch_)) return true;
  batch_ = ring::Batch();
  return false;
}

bool Feed::NextFile() {
  if (!Load()) return false;
  file_ = {};
  file_.lane = batch_.lane_id();
  file_.first_row = batch_.first_row() + at_;
  file_.min_ns = INT64_MAX;
  file_.max_ns = INT64_MIN;
  return true;
}

Result<std::size_t> Feed::Next(std::span<table::ColumnOut> columns) {
  if (!Load()) return std::size_t{0};
  const bool goes_on = batch_.lane_id() == file_.lane && batch_.first_row() + at_ == file_.end_row();
  if (!goes_on || file_.rows >= kMaxRowsInFile) return std::size_t{0};
  const std::size_t count = std::min(table::kBatchRows, batch_.rows() - at_);
  batch_columns_->Put(batch_, at_, count, columns.first(own_columns_));
  for (std::size_t i = own_columns_; i < columns.size(); ++i) PutTarget(i, count, columns[i]);
  const std::span<const std::int64_t> times = batch_.Int64s(0).subspan(at_, count);
  file_.min_ns = std::min(file_.min_ns, std::ranges::min(times));
  file_.max_ns = std::max(file_.max_ns, std::ranges::max(times));
  file_.rows += count;
  at_ += count;
  return count;
}

void Feed::PutTarget(std::size_t index, std::size_t count, table::ColumnOut& out) const {
  const std::string& name = columns_[index].name;
  for (std::size_t row = 0; row < count; ++row) {
    if (name == "host") {
      out.values<table::Text>()[row] = table::Text(about_.host);
    } else if (name == "pid") {
      out.values<std::int64_t>()[row] = about_.pid;
    } else if (about_.rank) {
      out.values<std::int64_t>()[row] = *about_.rank;
    } else {
      out.SetNull(row);
    }
  }
}

}  // namespace probing::history
