// The table for people.
#include <algorithm>

#include "base/visible.h"
#include "query/display_width.h"
#include "query/format.h"
#include "query/units.h"

namespace probing::query {
namespace {

// Widths are decided by this many rows; later ones are cut to fit, or stand out.
constexpr std::size_t kRowsForWidths = 1000;
constexpr std::size_t kLeastWidth = 5;  // of texts; a number that is cut would be another one
constexpr std::size_t kMostOfNumber = 24;
constexpr std::size_t kGap = 1;  // "…" where columns were left out

// A number whose digits all count.
bool IsExact(const ValueType& type) { return type.id != DUCKDB_TYPE_FLOAT && type.id != DUCKDB_TYPE_DOUBLE; }

class TableWriter : public TextWriter {
 public:
  TableWriter(const DuckDb& api, int width, std::string_view sql, Output output)
      : TextWriter(api, std::move(output)),
        limit_(width > 0 ? static_cast<std::size_t>(width) : 0),
        units_(sql) {}

 private:
  void BeginText() override {
    for (const std::string& name : names_) column_units_.push_back(units_.UnitOf(name));
  }

  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const ColumnView& column = columns[i];
      if (column.IsNull(row)) {
        cells.emplace_back("NULL");
        continue;
      }
      std::string text;
      column.AppendText(text, row);
      if (types_[i].is_number()) text = HumanNumber(text, column_units_[i], IsExact(types_[i]));
      cells.push_back(Visible(text));
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
    buffer_ += "(" + std::to_string(count_) + (count_ == 1 ? " row" : " rows");
    if (shown_.size() < names_.size())
      buffer_ +=
          ", " + std::to_string(shown_.size()) + " of " + std::to_string(names_.size()) + " columns fit";
    buffer_ += ")\n";
  }

  void ShowWaiting() {
    std::vector<std::string> titles;
    for (const std::string& name : names_) titles.push_back(Visible(name));
    for (std::size_t i = 0; i < titles.size(); ++i) {
      std::size_t width = std::max<std::size_t>(1, DisplayWidth(titles[i]));
      for (const auto& row : waiting_) width = std::max(width, DisplayWidth(row[i]));
      widths_.push_back(width);
    }
    Fit();
    ShowRow(titles);
    ShowLine();
    for (const auto& row : waiting_) ShowRow(row);
    waiting_.clear();
  }

  std::size_t LeastWidth(std::size_t column) const {
    const std::size_t least = types_[column].is_number() ? kMostOfNumber : kLeastWidth;
    return std::min(widths_[column], least);
  }

  // Which columns are shown, and how wide: all of them if they can be made to fit, otherwise as many
  // as can, from both ends.
  void Fit() {
    for (std::size_t i = 0; i < widths_.size(); ++i) shown_.push_back(i);
    if (limit_ == 0) return;
    const auto least_total = [this] {
      std::size_t total = 0;
      for (std::size_t i = 0; i < widths_.size(); ++i) total += LeastWidth(i) + 3;
      return total - 1;
    };
    if (!widths_.empty() && least_total() > limit_) ShowEnds();
    Shrink();
  }

  void ShowEnds() {
    shown_.clear();
    std::size_t room = limit_ > kGap + 3 ? limit_ - (kGap + 3) + 1 : 0;
    std::size_t left = 0;
    std::size_t right = widths_.size();
    while (left < right) {
      // Two from the left for one from the right: what comes first is mostly what was asked for first.
      const bool from_right = shown_.size() % 3 == 1;
      const std::size_t column = from_right ? right - 1 : left;
      const std::size_t needed = LeastWidth(column) + 3;
      if (needed > room) break;
      room -= needed;
      shown_.push_back(column);
      if (from_right)
        --right;
      else
        ++left;
    }
    // Even one may be too wide: then it is cut, number or not.
    if (shown_.empty()) shown_.push_back(0);
    std::ranges::sort(shown_);
  }

  // Takes from the widest text until the line fits, but leaves something of each; when nothing but
  // numbers is left to take from, from them.
  void Shrink() {
    std::size_t total = shown_.size() * 3 - 1 + (shown_.size() < widths_.size() ? kGap + 3 : 0);
    for (const std::size_t column : shown_) total += widths_[column];
    while (total > limit_) {
      std::size_t widest = shown_[0];
      for (const std::size_t column : shown_) {
        if (Spare(column) > Spare(widest)) widest = column;
      }
      if (Spare(widest) == 0) break;
      --widths_[widest];
      --total;
    }
    if (total > limit_ && shown_.size() == 1) {
      const std::size_t excess = total - limit_;
      std::size_t& width = widths_[shown_[0]];
      width = width > excess ? width - excess : 1;
    }
  }

  // What can be taken from a column, most from the widest.
  std::size_t Spare(std::size_t column) const {
    const std::size_t least = types_[column].is_number() ? kMostOfNumber : kLeastWidth;
    return widths_[column] > least ? widths_[column] : 0;
  }

  // Where the columns that are not shown would be.
  bool HasGapBefore(std::size_t place) const {
    return place > 0 ? shown_[place] != shown_[place - 1] + 1 : shown_[0] != 0;
  }
  bool HasGapAtEnd() const { return !shown_.empty() && shown_.back() + 1 != names_.size(); }

  void ShowLine() {
    for (std::size_t place = 0; place < shown_.size(); ++place) {
      if (place > 0) buffer_ += "┼";
      if (HasGapBefore(place)) buffer_ += "───┼";
      for (std::size_t j = 0; j < widths_[shown_[place]] + 2; ++j) buffer_ += "─";
    }
    if (HasGapAtEnd()) buffer_ += "┼───";
    buffer_ += '\n';
  }

  void ShowRow(const std::vector<std::string>& cells) {
    for (std::size_t place = 0; place < shown_.size(); ++place) {
      const std::size_t i = shown_[place];
      const bool is_last = place + 1 == shown_.size() && !HasGapAtEnd();
      if (HasGapBefore(place)) buffer_ += " … │";
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
    if (HasGapAtEnd()) buffer_ += " …";
    buffer_ += '\n';
  }

  std::size_t limit_;
  Units units_;
  std::vector<std::string_view> column_units_;
  std::vector<std::vector<std::string>> waiting_;
  std::vector<std::size_t> widths_;  // of all columns
  std::vector<std::size_t> shown_;   // columns
  std::uint64_t count_ = 0;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeTableWriter(const DuckDb& api, int width, std::string_view sql,
                                              Output output) {
  return std::make_unique<TableWriter>(api, width, sql, std::move(output));
}

}  // namespace probing::query
