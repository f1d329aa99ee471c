#include "table/ring_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <deque>

#include "table/registry.h"
#include "table/ring_pool.h"
#include "table/rows.h"
#include "table/user_table.h"

namespace probing::table {
namespace {

// Strings that were found to be UTF-8. Equal strings of one batch mostly have one address, and
// looking there is cheaper than looking at the bytes. Forgotten with each batch.
class CheckedStrings {
 public:
  bool Contains(std::string_view text) const {
    const std::string_view known = known_[Slot(text)];
    return known.data() == text.data() && known.size() == text.size();
  }
  void Add(std::string_view text) { known_[Slot(text)] = text; }
  void Clear() { known_.fill({}); }

 private:
  static constexpr std::size_t kSize = 256;
  static std::size_t Slot(std::string_view text) {
    return (reinterpret_cast<std::uintptr_t>(text.data()) >> 3) % kSize;
  }
  std::array<std::string_view, kSize> known_{};
};

class RingCursor : public Cursor {
 public:
  // `columns` are those of the request. A table that is not in the ring has no rows.
  static Result<std::unique_ptr<Cursor>> Open(const ScopedFd& fd, const Table& table,
                                              const ScanRequest& request) {
    ASSIGN_OR_RETURN(RingLease reader, LeaseRing(fd));
    std::unique_ptr<RingCursor> cursor(new RingCursor(std::move(reader)));
    const std::string name = LowerCase(table.name);
    for (const ring::TableInfo& info : cursor->reader_->Tables()) {
      if (LowerCase(info.name) == name) cursor->Start(info, table, request);
    }
    return std::unique_ptr<Cursor>(std::move(cursor));
  }

  Result<std::size_t> Next(std::span<ColumnOut> columns) override {
    while (scan_ && at_ == batch_.rows()) {
      at_ = 0;
      checked_.Clear();
      made_.clear();
      if (!scan_->Next(&batch_)) return std::size_t{0};
    }
    if (!scan_) return std::size_t{0};
    const std::size_t count = std::min(kBatchRows, batch_.rows() - at_);
    for (std::size_t i = 0; i < columns.size(); ++i) Put(columns[i], picks_[i], count);
    at_ += count;
    return count;
  }

 private:
  // Where a requested column comes from.
  struct Pick {
    std::size_t column = 0;  // of the batch
    Type from{};
    Type to{};
    bool exists = false;
  };

  explicit RingCursor(RingLease reader) : reader_(std::move(reader)) {}

  void Start(const ring::TableInfo& info, const Table& table, const ScanRequest& request) {
    ring::ScanOptions options;
    picks_.clear();
    for (const std::size_t wanted : request.columns) {
      const Column& column = table.columns[wanted];
      const auto found = std::ranges::find_if(
          info.columns, [&](const ring::Column& c) { return LowerCase(c.name) == LowerCase(column.name); });
      Pick& pick = picks_.emplace_back();
      pick.to = column.type;
      if (found == info.columns.end()) continue;
      pick.exists = true;
      pick.from = FromRing(found->type);
      pick.column = options.columns.size();
      options.columns.push_back(static_cast<std::uint32_t>(found - info.columns.begin()));
    }
    // Somebody who only counts rows still has to be told how many there are.
    if (options.columns.empty()) options.columns.push_back(0);
    options.min_time_ns = request.time.from_ns;
    options.max_time_ns = request.time.to_ns;
    scan_.emplace(reader_->StartScan(info, std::move(options)));
  }

  void Put(ColumnOut& out, const Pick& pick, std::size_t count) {
    if (!pick.exists) {
      for (std::size_t row = 0; row < count; ++row) out.SetNull(row);
      return;
    }
    PutValidity(out, pick.column, count);
    const bool is_number = pick.from == Type::kInt64 || pick.from == Type::kTimestamp;
    const bool wants_number = pick.to == Type::kInt64 || pick.to == Type::kTimestamp;
    if (is_number && wants_number) {
      std::memcpy(out.values<std::int64_t>(), batch_.Int64s(pick.column).data() + at_, count * 8);
    } else if (pick.from == Type::kDouble && pick.to == Type::kDouble) {
      std::memcpy(out.values<double>(), batch_.Doubles(pick.column).data() + at_, count * 8);
    } else if (pick.from == Type::kBool && pick.to == Type::kBool) {
      std::memcpy(out.values<bool>(), batch_.Bools(pick.column).data() + at_, count);
    } else if (pick.from == Type::kInt64 && pick.to == Type::kDouble) {
      for (std::size_t row = 0; row < count; ++row)
        out.values<double>()[row] = static_cast<double>(batch_.Int64s(pick.column)[at_ + row]);
    } else if (pick.to == Type::kString || pick.to == Type::kBytes) {
      PutTexts(out, pick, count);
    } else {
      for (std::size_t row = 0; row < count; ++row) out.SetNull(row);
    }
  }

  void PutValidity(ColumnOut& out, std::size_t column, std::size_t count) {
    if (at_ % 64 == 0) {
      const std::span<const std::uint64_t> from = batch_.validity(column).subspan(at_ / 64);
      std::copy_n(from.begin(), count / 64, out.validity());
      for (std::size_t row = count / 64 * 64; row < count; ++row) {
        if (batch_.IsNull(column, at_ + row)) out.SetNull(row);
      }
      return;
    }
    for (std::size_t row = 0; row < count; ++row) {
      if (batch_.IsNull(column, at_ + row)) out.SetNull(row);
    }
  }

  void PutTexts(ColumnOut& out, const Pick& pick, std::size_t count) {
    const bool is_text = pick.from == Type::kString || pick.from == Type::kBytes;
    auto* values = out.values<Text>();
    for (std::size_t row = 0; row < count; ++row) {
      if (!is_text) {
        values[row] = Text(made_.emplace_back(NumberText(pick, at_ + row)));
        continue;
      }
      const std::string_view text = batch_.Texts(pick.column)[at_ + row];
      values[row] = Text(pick.to == Type::kBytes ? text : Checked(text));
    }
  }

  // The writer promises UTF-8; the engine relies on it; so it is checked here.
  std::string_view Checked(std::string_view text) {
    if (text.empty() || checked_.Contains(text)) return text;
    if (!IsUtf8(text)) return made_.emplace_back(ToUtf8(text));
    checked_.Add(text);
    return text;
  }

  // For a column that is text because another target has texts in it.
  std::string NumberText(const Pick& pick, std::size_t row) const {
    if (pick.from == Type::kBool) return batch_.Bools(pick.column)[row] != 0 ? "true" : "false";
    std::array<char, 40> text;
    const auto end =
        pick.from == Type::kDouble
            ? std::to_chars(text.data(), text.data() + text.size(), batch_.Doubles(pick.column)[row])
            : std::to_chars(text.data(), text.data() + text.size(), batch_.Int64s(pick.column)[row]);
    return {text.data(), end.ptr};
  }

  RingLease reader_;
  std::optional<ring::Scan> scan_;
  std::vector<Pick> picks_;
  ring::Batch batch_;
  std::size_t at_ = 0;  // row of the batch that comes next
  CheckedStrings checked_;
  std::deque<std::string> made_;  // texts of this batch that are not in the ring
};

class RingSource : public Source {
 public:
  explicit RingSource(const Table& table) : table_(table) {}
  const Table& table() const override { return table_; }

  Result<std::vector<Part>> Parts(const ScanRequest& request) override {
    std::vector<Part> parts;
    const auto shared = std::make_shared<const ScanRequest>(request);
    for (const Target* target : request.targets) {
      for (const auto& fd : target->ring_fds)
        parts.push_back({target, [this, fd, shared] { return RingCursor::Open(*fd, table_, *shared); }});
    }
    return parts;
  }

 private:
  const Table& table_;
};

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

Type FromRing(ring::ColumnType type) {
  switch (type) {
    case ring::ColumnType::kInt64:
      return Type::kInt64;
    case ring::ColumnType::kDouble:
      return Type::kDouble;
    case ring::ColumnType::kBool:
      return Type::kBool;
    case ring::ColumnType::kString:
      return Type::kString;
    case ring::ColumnType::kBytes:
      return Type::kBytes;
    case ring::ColumnType::kTimestamp:
      return Type::kTimestamp;
  }
  return Type::kBytes;
}

ring::ColumnType ToRing(Type type) {
  switch (type) {
    case Type::kInt64:
      return ring::ColumnType::kInt64;
    case Type::kDouble:
      return ring::ColumnType::kDouble;
    case Type::kBool:
      return ring::ColumnType::kBool;
    case Type::kString:
      return ring::ColumnType::kString;
    case Type::kBytes:
      return ring::ColumnType::kBytes;
    case Type::kTimestamp:
      return ring::ColumnType::kTimestamp;
  }
  return ring::ColumnType::kBytes;
}

std::vector<ring::Column> RingColumns(const Table& table) {
  std::vector<ring::Column> columns;
  for (const Column& column : table.columns)
    columns.push_back({std::string(column.name), ToRing(column.type)});
  return columns;
}

std::unique_ptr<Source> MakeRingSource(const Table& table) { return std::make_unique<RingSource>(table); }

std::unique_ptr<Source> MakeDropsSource() {
  const Table* self = FindTable("probing.drops");
  return MakeRowsSource({self, [self](const Target* target, const std::vector<std::size_t>& columns) {
                           return ReadDrops(*self, *target, columns);
                         }});
}

}  // namespace probing::table
