#include "cpython/text.h"

#include <algorithm>
#include <cstring>

#include "cpython/block.h"

namespace probing::cpython {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

void AppendUtf8(std::uint32_t c, std::string& out) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = kReplacement;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

Error NotA(const char* what) {
  return {Code::kFailed, std::string("expected a Python ") + what + " and found something else", ""};
}

}  // namespace

std::string Utf8FromCharacters(std::span<const std::byte> characters, unsigned width) {
  std::string text;
  if (width == 0 || width > 4) return text;
  text.reserve(characters.size());
  for (std::size_t at = 0; at + width <= characters.size(); at += width) {
    std::uint32_t c = 0;  // little-endian, like every machine this runs on
    std::memcpy(&c, characters.data() + at, width);
    AppendUtf8(c, text);
  }
  return text;
}

Result<std::string> ReadUnicode(const process::Memory& memory, const Offsets& offsets,
                                process::RemoteAddress object, std::size_t max_characters) {
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, object, offsets.unicode.ascii_data));
  const auto length = head.Get<std::int64_t>(offsets.unicode.length);
  const std::uint32_t state = head.Get<std::uint32_t>(offsets.unicode.state) >> offsets.unicode.kind_shift;
  const unsigned width = state & 7U;
  const bool compact = (state & 8U) != 0;
  const bool ascii = (state & 16U) != 0;
  if ((width != 1 && width != 2 && width != 4) || length < 0) return NotA("str");
  const std::size_t count = std::min(static_cast<std::size_t>(length), max_characters);
  std::vector<std::byte> characters(count * width);
  process::RemoteAddress data = object + (ascii ? offsets.unicode.ascii_data : offsets.unicode.other_data);
  if (!compact) {  // an object of a class made of str: its characters are elsewhere
    ASSIGN_OR_RETURN(data,
                     memory.ReadValue((object + offsets.unicode.other_data).As<process::RemoteAddress>()));
  }
  RETURN_IF_ERROR(memory.Read(data, characters));
  return Utf8FromCharacters(characters, width);
}

Result<std::vector<std::uint8_t>> ReadBytes(const process::Memory& memory, const Offsets& offsets,
                                            process::RemoteAddress object, std::size_t max_bytes) {
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, object, offsets.bytes.data));
  const auto size = head.Get<std::int64_t>(offsets.bytes.size);
  if (size < 0 || static_cast<std::uint64_t>(size) > max_bytes) return NotA("bytes object");
  std::vector<std::uint8_t> content(static_cast<std::size_t>(size));
  RETURN_IF_ERROR(memory.Read(object + offsets.bytes.data, std::as_writable_bytes(std::span(content))));
  return content;
}

}  // namespace probing::cpython
