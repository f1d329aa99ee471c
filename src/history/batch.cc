#include "history/batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

#include "query/packing.h"

namespace probing::history {
namespace {

static_assert(std::endian::native == std::endian::little, "RowBinary is");

// Memory for a batch of the feed.
struct ColumnBuffer {
  std::array<table::Text, table::kBatchRows> values;  // the largest type there is
  std::array<std::uint64_t, table::kBatchRows / 64> validity;

  table::ColumnOut Reset() {
    validity.fill(~std::uint64_t{0});
    return {values.data(), validity.data()};
  }
  bool IsNull(std::size_t row) const { return ((validity[row / 64] >> (row % 64)) & 1) == 0; }
  template <typename T>
  T At(std::size_t row) const {
    return reinterpret_cast<const T*>(values.data())[row];
  }
};

template <typename T>
void PutNumber(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void PutText(std::string& out, std::string_view text) {
  std::size_t length = text.size();  // seven bits at a time
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7f));
  out += static_cast<char>(length);
  out += text;
}

void PutNullable(std::string& out, const ColumnBuffer& column, table::Type type, std::size_t row) {
  out += static_cast<char>(column.IsNull(row));
  if (column.IsNull(row)) return;
  switch (type) {
    case table::Type::kInt64:
    case table::Type::kTimestamp:
    case table::Type::kDouble:  // eight bytes either way
      PutNumber(out, column.At<std::int64_t>(row));
      break;
    case table::Type::kBool:
      PutNumber(out, static_cast<std::uint8_t>(column.At<bool>(row)));
      break;
    case table::Type::kString:
    case table::Type::kBytes: {
      const auto text = column.At<table::Text>(row);
      PutText(out, text.view());
      break;
    }
  }
}

// A time before 1970 or after 2106 has no place in a DateTime; timestamp_ns has it.
std::uint32_t Seconds(std::int64_t time_ns) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time_ns / 1'000'000'000, 0, UINT32_MAX));
}

}  // namespace

store::Shape ShapeOf(std::string table, const Feed& feed) {
  store::Shape shape{std::move(table), {}};
  for (const query::FileColumn& column : feed.columns()) {
    if (store::MayBeStored(column.name)) shape.columns.push_back({column.name, column.type});
  }
  return shape;
}

Result<void> Batch::Add(Feed& feed, std::string_view job, const std::string& ring) {
  const bool own_time = store::HasColumn(shape_, store::kExactTime);
  const bool own_job = store::HasColumn(shape_, store::kJob);
  std::vector<ColumnBuffer> buffers(feed.columns().size());
  std::uint64_t row_number = feed.file().first_row;
  while (true) {
    std::vector<table::ColumnOut> outs;
    for (ColumnBuffer& buffer : buffers) outs.push_back(buffer.Reset());
    ASSIGN_OR_RETURN(const std::size_t count, feed.Next(outs));
    if (count == 0) break;
    for (std::size_t row = 0; row < count; ++row) {
      const std::size_t begin = data_.size();
      const auto time_ns = buffers[0].At<std::int64_t>(row);
      PutNumber(data_, Seconds(time_ns));
      if (!own_time) PutNumber(data_, time_ns);
      for (std::size_t i = 1; i < buffers.size(); ++i) {
        const query::FileColumn& column = feed.columns()[i];
        if (store::MayBeStored(column.name)) PutNullable(data_, buffers[i], column.type, row);
      }
      if (!own_job) PutText(data_, job);
      PutText(data_, ring);
      PutNumber(data_, feed.file().lane);
      PutNumber(data_, row_number++);
      PutNumber(data_, id_);
      lengths_.push_back(static_cast<std::uint32_t>(data_.size() - begin));
    }
  }
  const table::HistoryFile& done = feed.file();
  ranges_.push_back({ring, done.lane, done.first_row, done.rows});
  min_ns_ = std::min(min_ns_, done.min_ns);
  max_ns_ = std::max(max_ns_, done.max_ns);
  return {};
}

std::string Batch::DataWithout(const std::vector<RowRange>& there) const {
  std::map<std::pair<std::string_view, std::uint64_t>, std::set<std::uint64_t>> known;
  for (const RowRange& range : there) {
    for (std::uint64_t i = 0; i < range.rows; ++i)
      known[{range.ring, range.lane}].insert(range.first_row + i);
  }
  std::string rest;
  std::size_t row = 0;
  std::size_t at = 0;
  for (const RowRange& range : ranges_) {
    const auto lane = known.find({range.ring, range.lane});
    for (std::uint64_t i = 0; i < range.rows; ++i, ++row) {
      if (lane == known.end() || !lane->second.contains(range.first_row + i))
        rest.append(data_, at, lengths_[row]);
      at += lengths_[row];
    }
  }
  return rest;
}

std::string Batch::Encode() const {
  query::Packer packer;
  packer.Put(shape_.table).Put(static_cast<std::uint64_t>(shape_.columns.size()));
  for (const store::Column& column : shape_.columns) packer.Put(column.name).Put(column.type);
  packer.Put(id_).Put(min_ns_).Put(max_ns_).Put(static_cast<std::uint64_t>(ranges_.size()));
  for (const RowRange& range : ranges_)
    packer.Put(range.ring).Put(range.lane).Put(range.first_row).Put(range.rows);
  return packer.Put(lengths_).Put(data_).Take();
}

std::optional<Batch> Batch::Decode(std::string_view text) {
  query::Unpacker unpacker(text);
  Batch batch({}, 0);
  std::uint64_t count = 0;
  if (!unpacker.Get(batch.shape_.table) || !unpacker.Get(count) || count > unpacker.rest().size()) return {};
  batch.shape_.columns.resize(count);
  for (store::Column& column : batch.shape_.columns) {
    if (!unpacker.Get(column.name) || !unpacker.Get(column.type)) return {};
  }
  if (!unpacker.Get(batch.id_) || !unpacker.Get(batch.min_ns_) || !unpacker.Get(batch.max_ns_) ||
      !unpacker.Get(count) || count > unpacker.rest().size())
    return {};
  batch.ranges_.resize(count);
  std::uint64_t rows = 0;
  for (RowRange& range : batch.ranges_) {
    if (!unpacker.Get(range.ring) || !unpacker.Get(range.lane) || !unpacker.Get(range.first_row) ||
        !unpacker.Get(range.rows))
      return {};
    rows += range.rows;
  }
  if (!unpacker.Get(batch.lengths_) || !unpacker.Get(batch.data_) || !unpacker.done()) return {};
  std::uint64_t bytes = 0;
  for (const std::uint32_t length : batch.lengths_) bytes += length;
  if (rows != batch.lengths_.size() || bytes != batch.data_.size() || batch.shape_.columns.empty()) return {};
  return batch;
}

}  // namespace probing::history
