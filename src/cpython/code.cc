#include "cpython/code.h"

#include <algorithm>

#include "cpython/block.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxNameCharacters = 4096;
constexpr std::size_t kMaxLineTableBytes = 4 << 20;  // a generated module of a million lines
constexpr std::size_t kMaxKnown = 1 << 16;           // forget all beyond that; a big job has 30,000
constexpr int kCodeUnitBytes = 2;

std::size_t EndOfFields(const Offsets& offsets) {
  const Offsets::Code& c = offsets.code;
  std::size_t end = offsets.object_type + 8U;
  for (const std::uint32_t field : {c.filename, c.name, c.qualified_name, c.line_table, c.first_line,
                                    c.first_traceable, c.bytecode_copies}) {
    if (field != kAbsent) end = std::max<std::size_t>(end, field + std::size_t{8});
  }
  return end;
}

}  // namespace

CodeCache::CodeCache(const Memory& memory, const Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      code_type_(location.code_type),
      block_bytes_(EndOfFields(location.offsets)) {}

Result<void> CodeCache::Load(std::span<const RemoteAddress> codes) {
  std::vector<RemoteAddress> wanted(codes.begin(), codes.end());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (known_.size() + wanted.size() > kMaxKnown) known_.clear();

  ASSIGN_OR_RETURN(const Blocks blocks, Blocks::Read(*memory_, wanted, block_bytes_));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const BlockView block = blocks[i];
    Identity identity;
    identity.type = block.GetPointer(offsets_.object_type);
    identity.filename = block.GetPointer(offsets_.code.filename);
    const bool qualified = offsets_.code.qualified_name != kAbsent;
    identity.name = block.GetPointer(qualified ? offsets_.code.qualified_name : offsets_.code.name);
    identity.line_table = block.GetPointer(offsets_.code.line_table);
    identity.bytecode_copies = block.GetPointer(offsets_.code.bytecode_copies);
    identity.first_line = block.Get<std::int32_t>(offsets_.code.first_line);
    identity.first_traceable = block.Get<std::int32_t>(offsets_.code.first_traceable);
    if (code_type_ && identity.type != code_type_) {
      return Error{Code::kFailed, "a frame in the target points to something that is no code", ""};
    }
    const auto known = known_.find(wanted[i].address);
    if (known != known_.end() && known->second.identity == identity) continue;
    ASSIGN_OR_RETURN(auto code, ReadParts(identity));
    known_.insert_or_assign(wanted[i].address, Entry{identity, std::move(code)});
  }
  return {};
}

Result<CodeInfo> CodeCache::ReadParts(const Identity& identity) const {
  CodeInfo code;
  ASSIGN_OR_RETURN(code.function, ReadUnicode(*memory_, offsets_, identity.name, kMaxNameCharacters));
  ASSIGN_OR_RETURN(code.file, ReadUnicode(*memory_, offsets_, identity.filename, kMaxNameCharacters));
  ASSIGN_OR_RETURN(code.line_table, ReadBytes(*memory_, offsets_, identity.line_table, kMaxLineTableBytes));
  code.first_line = identity.first_line;
  code.first_traceable_byte = std::int64_t{identity.first_traceable} * kCodeUnitBytes;
  code.bytecode_copies = identity.bytecode_copies;
  return code;
}

}  // namespace probing::cpython
