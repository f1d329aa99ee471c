// What code objects say about themselves: name, file, lines. They are read once and kept.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpython/locate.h"

namespace probing::cpython {

struct CodeInfo {
  std::string function;  // the qualified name since 3.11, the plain one before
  std::string file;
  int first_line = 0;
  std::vector<std::uint8_t> line_table;
  std::int64_t first_traceable_byte = 0;  // before it a frame is still being set up
  process::RemoteAddress bytecode_copies;
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class CodeCache {
 public:
  CodeCache(const process::Memory& memory, const Location& location);

  // Makes sure that all of them are known and still the ones that are known: a code object
  // may be freed and another one may take its place. Fails if any is no code object.
  Result<void> Load(std::span<const process::RemoteAddress> codes);

  // REQUIRES: the last Load() had it and was ok. Valid until the next Load().
  const CodeInfo& Get(process::RemoteAddress code) const { return known_.find(code.address)->second.code; }

 private:
  // Where the parts are. While these are the same it is the same code object.
  struct Identity {
    process::RemoteAddress type, filename, name, line_table, bytecode_copies;
    int first_line = 0;
    int first_traceable = 0;
    bool operator==(const Identity&) const = default;
  };
  struct Entry {
    Identity identity;
    CodeInfo code;
  };

  Result<CodeInfo> ReadParts(const Identity& identity) const;

  const process::Memory* memory_;
  Offsets offsets_;
  process::RemoteAddress code_type_;
  std::size_t block_bytes_;
  std::unordered_map<std::uint64_t, Entry> known_;
};

}  // namespace probing::cpython
