// Colours of what a person types: keywords, texts, numbers, comments. One colour for each byte, as
// LineEditor::Painter wants it; a text that is not finished is coloured as far as it goes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace probing::cli {

std::vector<std::uint8_t> HighlightPython(std::string_view text);
std::vector<std::uint8_t> HighlightSql(std::string_view text);

// The keywords of SQL, in capitals; also what can be completed.
std::span<const std::string_view> SqlKeywords();

// Whether colours are wanted: stdout is a terminal that has them, and NO_COLOR is not set.
bool ShowsColours();

}  // namespace probing::cli
