// The editor's text: how it is moved in, changed, remembered and drawn.
#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/line_editor.h"

namespace probing::cli {
namespace {

constexpr std::size_t kMostHistory = 5000;
constexpr unsigned char kControlH = 0x08;
constexpr unsigned char kControlR = 0x12;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
}

}  // namespace

void LineEditor::TakeSearchKey(unsigned char byte) {
  if (byte == 0x7f || byte == kControlH) {
    if (!pattern_.empty()) pattern_.pop_back();
    found_at_ = history_.size();
  } else if (byte != kControlR) {
    pattern_ += static_cast<char>(byte);
    found_at_ = std::min(found_at_ + 1, history_.size());  // the one that is shown may still do
  }
  Search();
}

void LineEditor::Search() {
  for (std::size_t i = found_at_; i-- > 0;) {
    if (history_[i].find(pattern_) == std::string::npos) continue;
    found_at_ = i;
    text_ = history_[i];
    cursor_ = text_.size();
    return;
  }
}

void LineEditor::Remember(const std::string& entry) {
  if (entry.empty() || (!history_.empty() && history_.back() == entry)) return;
  if (history_.size() >= kMostHistory) history_.erase(history_.begin());
  history_.push_back(entry);
}

void LineEditor::MoveInHistory(int by) {
  const std::size_t to = history_at_ + static_cast<std::size_t>(by);  // −1 wraps and is too large
  if (to > history_.size()) return;
  if (history_at_ == history_.size()) unfinished_ = text_;
  history_at_ = to;
  text_ = to == history_.size() ? unfinished_ : history_[to];
  cursor_ = text_.size();
}

// Within a block to the line above or below; from its edge through the history.
void LineEditor::MoveVertically(int by) {
  const std::size_t start = LineStart();
  const std::size_t end = LineEnd();
  if ((by < 0 && start == 0) || (by > 0 && end == text_.size())) return MoveInHistory(by);
  const std::size_t column = cursor_ - start;
  cursor_ = by < 0 ? start - 1 : end + 1;
  const std::size_t other = LineStart();
  cursor_ = std::min(other + column, LineEnd());
  while (cursor_ > other && cursor_ < text_.size() && IsContinuation(text_[cursor_])) --cursor_;
}

void LineEditor::Insert(std::string_view bytes) {
  text_.insert(cursor_, bytes);
  cursor_ += bytes.size();
}

void LineEditor::Erase(std::size_t from, std::size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::Cut(std::size_t from, std::size_t to) {
  cut_ = text_.substr(from, to - from);
  Erase(from, to);
}

void LineEditor::ReplaceBefore(std::size_t count, std::string_view by) {
  std::size_t from = cursor_;
  for (; count > 0; --count) from = Previous(from);
  Erase(from, cursor_);
  Insert(by);
}

std::size_t LineEditor::Previous(std::size_t at) const {
  if (at > 0) --at;
  while (at > 0 && IsContinuation(text_[at])) --at;
  return at;
}

std::size_t LineEditor::Next(std::size_t at) const {
  if (at < text_.size()) ++at;
  while (at < text_.size() && IsContinuation(text_[at])) ++at;
  return at;
}

std::size_t LineEditor::WordLeft() const {
  std::size_t at = cursor_;
  while (at > 0 && !IsWordByte(text_[at - 1])) --at;
  while (at > 0 && IsWordByte(text_[at - 1])) --at;
  return at;
}

std::size_t LineEditor::WordRight() const {
  std::size_t at = cursor_;
  while (at < text_.size() && !IsWordByte(text_[at])) ++at;
  while (at < text_.size() && IsWordByte(text_[at])) ++at;
  return at;
}

std::size_t LineEditor::LineStart() const {
  if (cursor_ == 0) return 0;
  const std::size_t newline = text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

std::size_t LineEditor::LineEnd() const { return std::min(text_.find('\n', cursor_), text_.size()); }

// Goes through the text as a terminal does, and writes it as it has to be sent.
void LineEditor::Lay(std::string_view text, int columns, Position& at, std::string* out) const {
  std::vector<std::uint8_t> colours;
  if (out != nullptr && painter_) colours = painter_(text);
  std::uint8_t colour = 0;
  const auto paint = [&](std::uint8_t wanted) {
    if (out == nullptr || wanted == colour) return;
    *out += "\x1b[" + std::to_string(wanted) + "m";
    colour = wanted;
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t size = 1;
    while (i + size < text.size() && IsContinuation(text[i + size])) ++size;
    const std::string_view character = text.substr(i, size);
    paint(i < colours.size() && character != "\n" ? colours[i] : 0);
    i += size;
    if (character == "\n") {
      if (out != nullptr) *out += "\r\n" + Prompt(more_);
      at = {at.row + 1, DisplayColumns(more_)};
      continue;
    }
    const bool tab = character == "\t";
    const int width = tab ? 4 : DisplayColumns(character);
    if (at.column + width > columns) at = {at.row + 1, 0};  // the terminal wraps by itself
    at.column += width;
    if (out != nullptr) *out += tab ? std::string_view("    ") : character;
  }
  paint(0);
}

std::string LineEditor::Prompt(std::string_view prompt) const {
  return painter_ ? "\x1b[32m" + std::string(prompt) + "\x1b[0m" : std::string(prompt);
}

std::string LineEditor::Render(int columns) {
  const std::string prompt = searching_ ? "(search `" + pattern_ + "`) " : prompt_;
  std::string out = drawn_rows_ > 0 ? "\x1b[" + std::to_string(drawn_rows_) + "A" : "";
  if (std::exchange(clears_, false)) out = "\x1b[H\x1b[2J";
  out += "\r\x1b[J" + Prompt(prompt);
  Position cursor{0, DisplayColumns(prompt)};
  Lay(std::string_view(text_).substr(0, cursor_), columns, cursor, nullptr);
  Position end{0, DisplayColumns(prompt)};
  Lay(text_, columns, end, &out);
  if (end.column == columns) out += " \r";  // else the terminal still hangs in the row above
  if (end.column == columns) end = {end.row + 1, 0};
  if (cursor.column == columns) cursor = {cursor.row + 1, 0};
  if (end.row > cursor.row) out += "\x1b[" + std::to_string(end.row - cursor.row) + "A";
  out += "\r";
  if (cursor.column > 0) out += "\x1b[" + std::to_string(cursor.column) + "C";
  drawn_rows_ = cursor.row;
  return out;
}

std::string LineEditor::RenderEnd(int columns) {
  searching_ = false;
  cursor_ = text_.size();
  return Render(columns) + "\r\n";
}

int DisplayColumns(std::string_view text) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::uint32_t code = lead < 0x80   ? lead
                         : lead < 0xe0 ? lead & 0x1fU
                         : lead < 0xf0 ? lead & 0x0fU
                                       : lead & 7U;
    for (++i; i < text.size() && IsContinuation(text[i]); ++i) {
      code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
    }
    const bool accent =
        (code >= 0x300 && code < 0x370) || code == 0x200d || (code >= 0xfe00 && code < 0xfe10);
    const bool wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                      (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
                      (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff00 && code < 0xff61) ||
                      (code >= 0x1f300 && code < 0x1f650) || (code >= 0x1f900 && code < 0x1fa00) ||
                      (code >= 0x20000 && code < 0x30000);
    columns += accent ? 0 : (wide ? 2 : 1);
  }
  return columns;
}

}  // namespace probing::cli
