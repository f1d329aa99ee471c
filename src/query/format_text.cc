// csv, json, jsonl and markdown.
#include <algorithm>

#include "query/format.h"

namespace probing::query {
namespace {

class CsvWriter : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void BeginText() override {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (i > 0) buffer_ += ',';
      AppendField(names_[i]);
    }
    buffer_ += "\r\n";
  }
  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) buffer_ += ',';
      if (columns[i].IsNull(row)) continue;
      field_.clear();
      columns[i].AppendText(field_, row);
      AppendField(field_);
    }
    buffer_ += "\r\n";
  }
  // Quoted when empty, so that it differs from NULL, or when it contains what ends a field.
  void AppendField(std::string_view field) {
    if (!field.empty() && field.find_first_of("\",\r\n") == std::string_view::npos) {
      buffer_ += field;
      return;
    }
    buffer_ += '"';
    for (const char c : field) {
      if (c == '"') buffer_ += '"';
      buffer_ += c;
    }
    buffer_ += '"';
  }

  std::string field_;
};

class JsonWriter : public TextWriter {
 public:
  JsonWriter(const DuckDb& api, Format format, Output output)
      : TextWriter(api, std::move(output)), lines_(format == Format::kJsonl) {}

 private:
  void BeginText() override {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      std::string key;
      AppendJsonString(key, UniqueName(i));
      keys_.push_back(key + ":");
    }
    if (!lines_) buffer_ += '[';
  }
  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    if (!lines_) buffer_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    buffer_ += '{';
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) buffer_ += ',';
      buffer_ += keys_[i];
      columns[i].AppendJson(buffer_, row);
    }
    buffer_ += lines_ ? "}\n" : "}";
  }
  void EndText() override {
    if (!lines_) buffer_ += is_first_ ? "]\n" : "\n]\n";
  }
  // `SELECT a.pid, b.pid` has two columns of a name; an object would lose one of them.
  std::string UniqueName(std::size_t index) const {
    const auto before =
        std::count(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(index), names_[index]);
    return before == 0 ? names_[index] : names_[index] + "_" + std::to_string(before + 1);
  }

  bool lines_;
  bool is_first_ = true;
  std::vector<std::string> keys_;
};

class MarkdownWriter : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void BeginText() override {
    for (const std::string& name : names_) {
      buffer_ += "| ";
      AppendCell(name);
      buffer_ += ' ';
    }
    buffer_ += "|\n";
    for (const ValueType& type : types_) buffer_ += type.is_number() ? "|---:" : "|---";
    buffer_ += "|\n";
  }
  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    for (const ColumnView& column : columns) {
      buffer_ += "| ";
      if (column.IsNull(row)) {
        buffer_ += "NULL";
      } else {
        cell_.clear();
        column.AppendText(cell_, row);
        AppendCell(cell_);
      }
      buffer_ += ' ';
    }
    buffer_ += "|\n";
  }
  void AppendCell(std::string_view text) {
    for (const char c : text) {
      switch (c) {
        case '|':
          buffer_ += "\\|";
          break;
        case '\\':
          buffer_ += "\\\\";
          break;
        case '<':
          buffer_ += "&lt;";
          break;
        case '&':
          buffer_ += "&amp;";
          break;
        case '\n':
          buffer_ += "<br>";
          break;
        case '\r':
          break;
        default:
          buffer_ += c;
      }
    }
  }

  std::string cell_;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeCsvWriter(const DuckDb& api, Output output) {
  return std::make_unique<CsvWriter>(api, std::move(output));
}
std::unique_ptr<FormatWriter> MakeJsonWriter(const DuckDb& api, Format format, Output output) {
  return std::make_unique<JsonWriter>(api, format, std::move(output));
}
std::unique_ptr<FormatWriter> MakeMarkdownWriter(const DuckDb& api, Output output) {
  return std::make_unique<MarkdownWriter>(api, std::move(output));
}

}  // namespace probing::query
