#include "cli/output.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/visible.h"
#include "cli/terminal.h"

namespace probing::cli {
namespace {

bool ColoursWanted(int fd) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

// What comes from a target gives no orders to the user's terminal.
void PrintTo(int fd, std::string_view text) {
  (void)(isatty(fd) == 1 ? WriteAll(fd, TerminalSafe(text)) : WriteAll(fd, text));
}

std::string PaintedFor(int fd, std::string_view text, Colour colour) {
  static constexpr std::array<const char*, 6> kCodes{"1", "2", "31", "32", "33", "7"};
  if (!ColoursWanted(fd)) return std::string(text);
  return std::string("\x1b[") + kCodes[static_cast<std::size_t>(colour)] + "m" + std::string(text) +
         "\x1b[0m";
}

constexpr std::size_t kLeastColumn = 8;  // what is narrower than that is never cut

std::vector<std::size_t> WidthsOf(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    if (row.size() == 1 && rows.front().size() > 1) continue;  // a title
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], VisibleWidth(row[i]));
  }
  return widths;
}

// Takes from the widest column until a row fits into the line of a terminal.
void FitToTerminal(std::vector<std::vector<std::string>>& rows) {
  const auto size = FindTerminalSize();
  if (!size || size->columns <= 0) return;
  std::vector<std::size_t> widths = WidthsOf(rows);
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  while (total > static_cast<std::size_t>(size->columns)) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= kLeastColumn) break;
    --*widest;
    --total;
  }
  for (auto& row : rows) {
    if (row.size() == 1) {
      row[0] = FittedText(row[0], static_cast<std::size_t>(size->columns));
      continue;
    }
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = FittedText(row[i], widths[i]);
  }
}

void AppendRow(std::string& out, const std::vector<std::string>& row,
               const std::vector<std::size_t>& widths) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    out += row[i];
    if (i + 1 < row.size()) out.append(widths[i] - VisibleWidth(row[i]) + 2, ' ');
  }
  while (out.ends_with(' ')) out.pop_back();
  out += '\n';
}

}  // namespace

// Escape sequences take none, a character of several bytes one.
std::size_t VisibleWidth(std::string_view text) {
  std::size_t width = 0;
  bool escaped = false;
  for (const char c : text) {
    if (c == '\x1b') escaped = true;
    if (!escaped && (static_cast<unsigned char>(c) & 0xC0) != 0x80) ++width;
    if (escaped && c == 'm') escaped = false;
  }
  return width;
}

std::string FittedText(const std::string& text, std::size_t columns) {
  if (VisibleWidth(text) <= columns) return text;
  std::string out;
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size() && width + 1 < columns;) {
    std::size_t size = 1;
    if (text[i] == '\x1b') {
      while (i + size < text.size() && text[i + size - 1] != 'm') ++size;
    } else {
      while (i + size < text.size() && (static_cast<unsigned char>(text[i + size]) & 0xC0) == 0x80) ++size;
      ++width;
    }
    out += text.substr(i, size);
    i += size;
  }
  return out + "…" + (text.find('\x1b') != std::string::npos ? "\x1b[0m" : "");
}

int PrintError(const Error& error) {
  std::string text = PaintedFor(STDERR_FILENO, "probing: ", Colour::kRed) + error.message + "\n";
  if (!error.hint.empty()) text += "  hint: " + error.hint + "\n";
  PrintAside(text);
  return static_cast<int>(error.code);
}

void Print(std::string_view text) { PrintTo(STDOUT_FILENO, text); }

void PrintAside(std::string_view text) { PrintTo(STDERR_FILENO, text); }

void Draw(std::string_view orders) { (void)WriteAll(STDOUT_FILENO, orders); }

void DrawAside(std::string_view orders) { (void)WriteAll(STDERR_FILENO, orders); }

std::string Painted(std::string_view text, Colour colour) { return PaintedFor(STDOUT_FILENO, text, colour); }

std::string PaintedAside(std::string_view text, Colour colour) {
  return PaintedFor(STDERR_FILENO, text, colour);
}

std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> all{{}};
  for (const std::string& cell : header) all[0].push_back(Painted(cell, Colour::kBold));
  all.insert(all.end(), rows.begin(), rows.end());
  FitToTerminal(all);
  return FormatRows(all);
}

std::string FormatRows(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<std::size_t> widths = WidthsOf(rows);
  std::string out;
  for (const auto& row : rows) AppendRow(out, row, widths);
  return out;
}

std::string OneLine(std::string_view text, std::size_t max_bytes) {
  std::string line = Visible(text);
  if (line.size() <= max_bytes) return line;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return line.substr(0, end) + "…";
}

std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t at = 0;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    const std::size_t width = VisibleWidth(word);
    if (at > indent && at + 1 + width > columns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (at > 0) {
      out += ' ';
      ++at;
    } else {
      at = indent;
    }
    out += word;
    at += width;
  }
  return out;
}

std::string FormatTime(std::int64_t wall_ns) {
  const time_t seconds = wall_ns / 1'000'000'000;
  tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local)};
}

std::string FormatDuration(std::int64_t seconds) {
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400)
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds / 3600 % 24) + " h";
}

std::string FormatBytes(double bytes) {
  std::array<char, 32> text{};
  if (bytes >= 1 << 30)
    std::snprintf(text.data(), text.size(), "%.2f GB", bytes / (1 << 30));
  else if (bytes >= 1 << 20)
    std::snprintf(text.data(), text.size(), "%.1f MB", bytes / (1 << 20));
  else
    std::snprintf(text.data(), text.size(), "%.1f KB", bytes / 1024);
  return text.data();
}

}  // namespace probing::cli
