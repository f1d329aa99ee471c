#include "flame/escape.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace probing::flame {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

unsigned char ByteAt(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

bool IsContinuation(std::string_view text, std::size_t at) {
  return at < text.size() && (ByteAt(text, at) & 0xC0U) == 0x80;
}

// Bytes of the character at `at`; 0 when there is none. Overlong forms and surrogates are none.
std::size_t CharacterBytes(std::string_view text, std::size_t at) {
  const unsigned char first = ByteAt(text, at);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < size; ++i) {
    if (!IsContinuation(text, at + i)) return 0;
  }
  const unsigned char second = ByteAt(text, at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : size;
}

bool IsForbiddenInXml(std::string_view character) {
  if (character.size() == 1) {
    const unsigned char c = ByteAt(character, 0);
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  }
  return character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf";  // U+FFFE, U+FFFF
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = CharacterBytes(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string ValidUtf8(std::string text) {
  if (IsValidUtf8(text)) return text;
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = CharacterBytes(text, at);
    valid += size == 0 ? kReplacement : std::string_view(text).substr(at, size);
    at += std::max<std::size_t>(size, 1);
  }
  return valid;
}

std::string XmlText(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::max<std::size_t>(CharacterBytes(text, at), 1);
    const std::string_view character = text.substr(at, size);
    at += size;
    switch (character.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += IsForbiddenInXml(character) ? kReplacement : character;
    }
  }
  return out;
}

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string ScriptText(std::string_view text) {
  std::string out;
  for (const char c : JsonText(text)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string CollapsedText(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), ';', ':');
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return out;
}

}  // namespace probing::flame
