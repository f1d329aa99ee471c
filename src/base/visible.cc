#include "base/visible.h"

#include <algorithm>
#include <cstddef>

namespace probing {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

unsigned char ByteAt(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

void AppendHex(std::string& out, unsigned value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15];
}

// U+202A to U+202E and U+2066 to U+2069; 0 for all others.
unsigned DirectionMark(std::string_view text, std::size_t at) {
  if (ByteAt(text, at) != 0xE2) return 0;
  const unsigned second = ByteAt(text, at + 1);
  const unsigned third = ByteAt(text, at + 2);
  if (second == 0x80 && third >= 0xAA && third <= 0xAE) return 0x2000 + (third & 0x3F);
  if (second == 0x81 && third >= 0xA6 && third <= 0xA9) return 0x2040 + (third & 0x3F);
  return 0;
}

// How long the colour that begins here is: ESC [ digits and semicolons m. 0: it is none.
std::size_t ColourLength(std::string_view text, std::size_t at) {
  if (ByteAt(text, at) != 0x1B || ByteAt(text, at + 1) != '[') return 0;
  std::size_t end = at + 2;
  while ((ByteAt(text, end) >= '0' && ByteAt(text, end) <= '9') || ByteAt(text, end) == ';') ++end;
  return ByteAt(text, end) == 'm' ? end + 1 - at : 0;
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

std::string Escape(std::string_view text, bool keeps_lines) {
  if (IsPlain(text)) return std::string(text);  // nearly all are
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = ByteAt(text, i);
    // U+0080 to U+009F (C2 80 … C2 9F) are control characters, too: some terminals take U+009B for ESC [.
    const bool is_c1 = byte == 0xC2 && ByteAt(text, i + 1) >= 0x80 && ByteAt(text, i + 1) < 0xA0;
    const bool ends_line = byte == '\n' || (byte == '\r' && ByteAt(text, i + 1) == '\n');
    if (keeps_lines && (ends_line || byte == '\t')) {
      out += text[i];
    } else if (const std::size_t colour = keeps_lines ? ColourLength(text, i) : 0; colour > 0) {
      out += text.substr(i, colour);
      i += colour - 1;
    } else if (byte == '\n' || byte == '\r' || byte == '\t') {
      out += byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte == 0x7F || is_c1) {
      out += "\\x";
      AppendHex(out, is_c1 ? ByteAt(text, ++i) : byte, 2);
    } else if (const unsigned mark = DirectionMark(text, i); mark != 0) {
      out += "\\u";
      AppendHex(out, mark, 4);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string Visible(std::string_view text) { return Escape(text, /*keeps_lines=*/false); }

std::string TerminalSafe(std::string_view text) { return Escape(text, /*keeps_lines=*/true); }

}  // namespace probing
