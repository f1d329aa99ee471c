// What a person sees: errors, tables, colours. Colours only on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing::cli {

// `probing: cannot …` and `  hint: …` on stderr. Returns the exit code.
int PrintError(const Error& error);

// Writes to stdout: as it is to files and pipes, by way of TerminalSafe() to a terminal. A closed pipe is
// nobody's error.
void Print(std::string_view text);

// What this program draws itself, by orders to the terminal. REQUIRES: no text of a target is in it.
void Draw(std::string_view orders);
void DrawAside(std::string_view orders);

// The same to stderr: progress and remarks, which are no result.
void PrintAside(std::string_view text);

enum class Colour { kBold, kDim, kRed, kGreen, kYellow, kReverse };
// The text in that colour when stdout is a terminal and NO_COLOR is not set.
std::string Painted(std::string_view text, Colour colour);
// The same for what goes to stderr.
std::string PaintedAside(std::string_view text, Colour colour);

// Columns as wide as their widest cell, two spaces between; the header is bold. A row of one cell is a title
// and may reach across the columns. On a terminal the widest columns are cut until a row fits into a line.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

// The same without a header.
std::string FormatRows(const std::vector<std::vector<std::string>>& rows);

// A command line may hold anything: made visible, and cut when it is long.
std::string OneLine(std::string_view text, std::size_t max_bytes);

// Columns of a terminal that a text with colours takes.
std::size_t VisibleWidth(std::string_view text);
// The beginning of it that fits, with "…" when something is left out.
std::string FittedText(const std::string& text, std::size_t columns);

// In lines of at most `columns`, each after the first with that many spaces before it.
std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent);

// "2026-11-15 22:17:42", local time.
std::string FormatTime(std::int64_t wall_ns);
// "3 h 12 min", the two largest units.
std::string FormatDuration(std::int64_t seconds);
// "1.25 GB", "3.5 MB", "0.2 KB"; 1 KB is 1024 bytes.
std::string FormatBytes(double bytes);

}  // namespace probing::cli
