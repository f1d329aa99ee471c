// Python's str and bytes, read from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpython/offsets.h"
#include "process/memory.h"

namespace probing::cpython {

// UTF-8 from characters of `width` bytes (1, 2 or 4) as PEP 393 stores them. What is no
// character (a lone surrogate, a number that is too big) becomes U+FFFD, so that the result
// can always be printed and put into JSON.
std::string Utf8FromCharacters(std::span<const std::byte> characters, unsigned width);

// A str. One longer than `max_characters` is cut, not an error.
Result<std::string> ReadUnicode(const process::Memory& memory, const Offsets& offsets,
                                process::RemoteAddress object, std::size_t max_characters);

// A bytes object; fails when it is longer than `max_bytes`.
Result<std::vector<std::uint8_t>> ReadBytes(const process::Memory& memory, const Offsets& offsets,
                                            process::RemoteAddress object, std::size_t max_bytes);

}  // namespace probing::cpython
