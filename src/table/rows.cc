#include "table/rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace probing::table {
namespace {

// A cell that says nothing takes a byte on the way and forty here.
constexpr std::uint64_t kMaxCells = 4'000'000;

void PutNumber(std::string& out, const void* data, std::size_t size) {
  out.append(static_cast<const char*>(data), size);
}

// Takes values off the front of an encoded text; false when it is too short.
class Decoder {
 public:
  explicit Decoder(std::string_view text) : rest_(text) {}
  bool Bytes(void* to, std::size_t size) {
    if (rest_.size() < size) return false;
    std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }
  bool String(std::string& to) {
    std::uint64_t size = 0;
    if (!Bytes(&size, sizeof(size)) || size > rest_.size()) return false;
    to.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  bool done() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

bool DecodeValue(Decoder& decoder, Type type, Value& value) {
  char present = 0;
  if (!decoder.Bytes(&present, 1)) return false;
  if (present == 0) return true;
  switch (type) {
    case Type::kInt64:
    case Type::kTimestamp: {
      std::int64_t number = 0;
      if (!decoder.Bytes(&number, sizeof(number))) return false;
      value = number;
      return true;
    }
    case Type::kDouble: {
      double number = 0;
      if (!decoder.Bytes(&number, sizeof(number))) return false;
      value = number;
      return true;
    }
    case Type::kBool: {
      char flag = 0;
      if (!decoder.Bytes(&flag, 1)) return false;
      value = flag != 0;
      return true;
    }
    case Type::kString:
    case Type::kBytes: {
      std::string text;
      if (!decoder.String(text)) return false;
      value = std::move(text);
      return true;
    }
  }
  return false;
}

void EncodeValue(std::string& out, const Value& value) {
  out.push_back(static_cast<char>(value.index() != 0));
  if (const auto* number = std::get_if<std::int64_t>(&value)) PutNumber(out, number, sizeof(*number));
  if (const auto* number = std::get_if<double>(&value)) PutNumber(out, number, sizeof(*number));
  if (const auto* flag = std::get_if<bool>(&value)) out.push_back(static_cast<char>(*flag));
  if (const auto* text = std::get_if<std::string>(&value)) {
    const std::uint64_t size = text->size();
    PutNumber(out, &size, sizeof(size));
    out += *text;
  }
}

class RowsCursor : public Cursor {
 public:
  explicit RowsCursor(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}

  Result<std::size_t> Next(std::span<ColumnOut> columns) override {
    const std::size_t count = std::min(kBatchRows, rows_->size() - next_);
    repaired_.clear();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::size_t r = 0; r < count; ++r) Put(columns[c], c, r);
    }
    next_ += count;
    return count;
  }

  std::string_view note() const override { return rows_->note(); }

 private:
  void Put(ColumnOut& out, std::size_t column, std::size_t row) {
    const Value& value = rows_->at(column, next_ + row);
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      out.values<std::int64_t>()[row] = *number;
    } else if (const auto* real = std::get_if<double>(&value)) {
      out.values<double>()[row] = *real;
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      out.values<bool>()[row] = *flag;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      const bool is_fine = rows_->type(column) == Type::kBytes || IsUtf8(*text);
      out.values<Text>()[row] = Text(is_fine ? *text : repaired_.emplace_back(ToUtf8(*text)));
    } else {
      out.SetNull(row);
    }
  }

  std::shared_ptr<const Rows> rows_;
  std::size_t next_ = 0;
  std::deque<std::string> repaired_;  // a deque: texts keep their address
};

class RowsSource : public Source {
 public:
  explicit RowsSource(RowsFunction function) : function_(std::move(function)) {}

  const Table& table() const override { return *function_.table; }

  Result<std::vector<Part>> Parts(const ScanRequest& request) override {
    std::vector<Part> parts;
    const auto add = [&](const Target* target) {
      parts.push_back(
          {target, [this, target, columns = request.columns]() -> Result<std::unique_ptr<Cursor>> {
             ASSIGN_OR_RETURN(Rows rows, function_.make(target, columns));
             return MakeRowsCursor(std::make_shared<const Rows>(std::move(rows)));
           }});
    };
    if (function_.table->about == About::kHost) {
      add(nullptr);
      return parts;
    }
    const bool is_read_from_process = function_.table->origin == Origin::kOutside;
    for (const Target* target : request.targets) {
      if (target->pid > 0 || !is_read_from_process || request.is_recorded) add(target);
    }
    return parts;
  }

 private:
  RowsFunction function_;
};

}  // namespace

void Rows::Add(std::vector<Value> row) {
  for (std::size_t c = 0; c < columns_.size(); ++c) columns_[c].push_back(std::move(row[c]));
  ++count_;
}

std::string Rows::Encode() const {
  std::string out;
  const std::uint64_t sizes[2] = {types_.size(), size()};
  PutNumber(out, sizes, sizeof(sizes));
  for (const Type type : types_) out.push_back(static_cast<char>(type));
  for (const auto& column : columns_) {
    for (const Value& value : column) EncodeValue(out, value);
  }
  if (!note_.empty()) EncodeValue(out, Value(note_));
  return out;
}

Result<Rows> Rows::Decode(std::string_view encoded) {
  const Error damaged{Code::kFailed, "rows of a live table arrived damaged", "run the query again"};
  Decoder decoder(encoded);
  std::uint64_t sizes[2] = {};
  if (!decoder.Bytes(sizes, sizeof(sizes)) || sizes[0] > decoder.left()) return damaged;
  std::vector<Type> types(sizes[0]);
  for (Type& type : types) {
    if (!decoder.Bytes(&type, 1) || type > Type::kTimestamp) return damaged;
  }
  if (!types.empty() && sizes[1] > kMaxCells / types.size()) return damaged;
  Rows rows(types);
  rows.count_ = sizes[1];
  for (std::size_t c = 0; c < types.size(); ++c) {
    if (sizes[1] > decoder.left()) return damaged;  // every value takes a byte at least
    rows.columns_[c].resize(sizes[1]);
    for (Value& value : rows.columns_[c]) {
      if (!DecodeValue(decoder, types[c], value)) return damaged;
    }
  }
  if (decoder.done()) return rows;
  Value note;
  if (!DecodeValue(decoder, Type::kString, note) || !decoder.done()) return damaged;
  if (auto* text = std::get_if<std::string>(&note)) rows.note_ = std::move(*text);
  return rows;
}

std::unique_ptr<Cursor> MakeRowsCursor(std::shared_ptr<const Rows> rows) {
  return std::make_unique<RowsCursor>(std::move(rows));
}

std::unique_ptr<Source> MakeRowsSource(RowsFunction function) {
  return std::make_unique<RowsSource>(std::move(function));
}

std::vector<Type> TypesOf(const Table& table, const std::vector<std::size_t>& columns) {
  std::vector<Type> types;
  for (const std::size_t column : columns) types.push_back(table.columns[column].type);
  return types;
}

}  // namespace probing::table
