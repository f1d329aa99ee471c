#include "table/ring_batch.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"
#include "table/rows.h"

namespace probing::table {
namespace {

void PutValidity(const ring::Batch& batch, std::size_t column, std::size_t at, std::size_t count,
                 ColumnOut& out) {
  std::size_t row = 0;
  if (at % 64 == 0) {
    const std::span<const std::uint64_t> from = batch.validity(column).subspan(at / 64);
    std::copy_n(from.begin(), count / 64, out.validity());
    row = count / 64 * 64;
  }
  for (; row < count; ++row) {
    if (batch.IsNull(column, at + row)) out.SetNull(row);
  }
}

// For a column that is text because another target has texts in it.
std::string NumberText(const ring::Batch& batch, std::size_t column, Type from, std::size_t row) {
  if (from == Type::kBool) return batch.Bools(column)[row] != 0 ? "true" : "false";
  std::array<char, 40> text;
  char* const end = text.data() + text.size();
  const auto written = from == Type::kDouble ? std::to_chars(text.data(), end, batch.Doubles(column)[row])
                                             : std::to_chars(text.data(), end, batch.Int64s(column)[row]);
  return {text.data(), written.ptr};
}

}  // namespace

BatchColumns::BatchColumns(const ring::TableInfo& info, const Table& table,
                           const std::vector<std::size_t>& columns) {
  for (const std::size_t wanted : columns) {
    const Column& column = table.columns[wanted];
    const auto found = std::ranges::find_if(
        info.columns, [&](const ring::Column& c) { return LowerCase(c.name) == LowerCase(column.name); });
    Pick& pick = picks_.emplace_back();
    pick.to = column.type;
    if (found == info.columns.end()) continue;
    pick.exists = true;
    pick.from = FromRing(found->type);
    pick.column = ring_columns_.size();
    ring_columns_.push_back(static_cast<std::uint32_t>(found - info.columns.begin()));
  }
  // Somebody who only counts rows still has to be told how many there are.
  if (ring_columns_.empty()) ring_columns_.push_back(0);
}

void BatchColumns::NewBatch() {
  checked_.Clear();
  made_.clear();
}

void BatchColumns::Put(const ring::Batch& batch, std::size_t at, std::size_t count,
                       std::span<ColumnOut> columns) {
  for (std::size_t i = 0; i < columns.size(); ++i) PutColumn(batch, at, count, picks_[i], columns[i]);
}

void BatchColumns::PutColumn(const ring::Batch& batch, std::size_t at, std::size_t count, const Pick& pick,
                             ColumnOut& out) {
  if (!pick.exists) {
    for (std::size_t row = 0; row < count; ++row) out.SetNull(row);
    return;
  }
  PutValidity(batch, pick.column, at, count, out);
  const bool is_number = pick.from == Type::kInt64 || pick.from == Type::kTimestamp;
  const bool wants_number = pick.to == Type::kInt64 || pick.to == Type::kTimestamp;
  if (is_number && wants_number) {
    std::memcpy(out.values<std::int64_t>(), batch.Int64s(pick.column).data() + at, count * 8);
  } else if (pick.from == Type::kDouble && pick.to == Type::kDouble) {
    std::memcpy(out.values<double>(), batch.Doubles(pick.column).data() + at, count * 8);
  } else if (pick.from == Type::kBool && pick.to == Type::kBool) {
    std::memcpy(out.values<bool>(), batch.Bools(pick.column).data() + at, count);
  } else if (pick.from == Type::kInt64 && pick.to == Type::kDouble) {
    for (std::size_t row = 0; row < count; ++row)
      out.values<double>()[row] = static_cast<double>(batch.Int64s(pick.column)[at + row]);
  } else if (pick.to == Type::kString || pick.to == Type::kBytes) {
    PutTexts(batch, at, count, pick, out);
  } else {
    for (std::size_t row = 0; row < count; ++row) out.SetNull(row);
  }
}

void BatchColumns::PutTexts(const ring::Batch& batch, std::size_t at, std::size_t count, const Pick& pick,
                            ColumnOut& out) {
  const bool is_text = pick.from == Type::kString || pick.from == Type::kBytes;
  auto* values = out.values<Text>();
  for (std::size_t row = 0; row < count; ++row) {
    if (!is_text) {
      values[row] = Text(made_.emplace_back(NumberText(batch, pick.column, pick.from, at + row)));
      continue;
    }
    const std::string_view text = batch.Texts(pick.column)[at + row];
    const Text* checked = checked_.Find(text);
    if (checked != nullptr)
      values[row] = *checked;
    else
      values[row] = pick.to == Type::kBytes ? Text(text) : Checked(text);
  }
}

// The writer promises UTF-8; the engine relies on it; so it is checked here.
Text BatchColumns::Checked(std::string_view text) {
  if (!IsUtf8(text)) return Text(made_.emplace_back(ToUtf8(text)));
  checked_.Add(text);
  return Text(text);
}

}  // namespace probing::table
