// The table for people.
#include <algorithm>
#include <numeric>

#include "query/display_width.h"
#include "query/format.h"

namespace probing::query {
namespace {

// Widths are decided by this many rows; later ones are cut to fit, or stand out.
constexpr std::size_t kRowsForWidths = 1000;
constexpr std::size_t kLeastWidth = 5;

class TableWriter : public TextWriter {
 public:
  TableWriter(const DuckDb& api, int width, Output output)
      : TextWriter(api, std::move(output)), limit_(width > 0 ? static_cast<std::size_t>(width) : 0) {}

 private:
  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    std::vector<std::string> cells;
    for (const ColumnView& column : columns) {
      if (column.IsNull(row)) {
        cells.emplace_back("NULL");
        continue;
      }
      std::string text;
      column.AppendText(text, row);
      cells.push_back(Printable(text));
    }
    ++count_;
    if (widths_.empty()) {
      waiting_.push_back(std::move(cells));
      if (waiting_.size() == kRowsForWidths) ShowWaiting();
    } else {
      ShowRow(cells);
    }
  }

  void EndText() override {
    if (widths_.empty()) ShowWaiting();
    buffer_ += "(" + std::to_string(count_) + (count_ == 1 ? " row)\n" : " rows)\n");
  }

  void ShowWaiting() {
    std::vector<std::string> titles;
    for (const std::string& name : names_) titles.push_back(Printable(name));
    for (std::size_t i = 0; i < titles.size(); ++i) {
      std::size_t width = std::max<std::size_t>(1, DisplayWidth(titles[i]));
      for (const auto& row : waiting_) width = std::max(width, DisplayWidth(row[i]));
      widths_.push_back(width);
    }
    Shrink();
    ShowRow(titles);
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (i > 0) buffer_ += "┼";
      for (std::size_t j = 0; j < widths_[i] + 2; ++j) buffer_ += "─";
    }
    buffer_ += '\n';
    for (const auto& row : waiting_) ShowRow(row);
    waiting_.clear();
  }

  // Takes from the widest column until the line fits, but leaves something of each.
  void Shrink() {
    if (limit_ == 0) return;
    const std::size_t frame = widths_.size() * 3 - 1;
    std::size_t total = std::accumulate(widths_.begin(), widths_.end(), frame);
    while (total > limit_) {
      const auto widest = std::ranges::max_element(widths_);
      if (*widest <= kLeastWidth) return;
      --*widest;
      --total;
    }
  }

  void ShowRow(const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool is_last = i + 1 == cells.size();
      const std::string cell = limit_ == 0 ? cells[i] : FitWidth(cells[i], widths_[i]);
      const std::size_t used = DisplayWidth(cell);
      const std::size_t padding = used < widths_[i] ? widths_[i] - used : 0;
      const bool to_the_right = types_[i].is_number();
      buffer_ += ' ';
      if (to_the_right) buffer_.append(padding, ' ');
      buffer_ += cell;
      if (!to_the_right && !is_last) buffer_.append(padding, ' ');
      if (!is_last) buffer_ += " │";
    }
    buffer_ += '\n';
  }

  std::size_t limit_;
  std::vector<std::vector<std::string>> waiting_;
  std::vector<std::size_t> widths_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeTableWriter(const DuckDb& api, int width, Output output) {
  return std::make_unique<TableWriter>(api, width, std::move(output));
}

}  // namespace probing::query
