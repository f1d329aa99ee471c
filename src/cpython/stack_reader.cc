#include "cpython/stack_reader.h"

#include <algorithm>
#include <unordered_set>

#include "cpython/block.h"
#include "cpython/line_table.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kTagBits = 7;           // 3.14 marks borrowed references in the low bits
constexpr std::uint8_t kOwnedByGenerator = 1;   // enum _frameowner, the same since 3.11
constexpr std::int64_t kMaxBytecodeBytes = 1 << 30;

Error Changed(const char* what) { return {Code::kFailed, std::string("the stack changed while it was read: ") + what, ""}; }

std::size_t EndOfFields(const Offsets::Frame& frame) {
  std::size_t end = 0;
  for (const std::uint32_t field :
       {frame.previous, frame.code, frame.instruction, frame.owner & ~7U, frame.bytecode_index}) {
    if (field < kAbsent - 7) end = std::max<std::size_t>(end, field + std::size_t{8});
  }
  return end;
}

}  // namespace

StackReader::StackReader(const Memory& memory, const Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      frame_bytes_(EndOfFields(location.offsets.frame)),
      codes_(memory, location) {}

Stack StackReader::Read(RemoteAddress thread, std::size_t max_depth, int attempts) {
  for (int i = 0; i < attempts; ++i) {
    auto stack = TryToRead(thread, max_depth);
    if (stack.ok()) return std::move(*stack);
  }
  Stack torn;
  torn.torn = true;
  return torn;
}

void StackReader::Keep(const std::vector<RemoteAddress>& threads) {
  std::unordered_set<std::uint64_t> alive;
  for (const RemoteAddress thread : threads) alive.insert(thread.address);
  std::erase_if(last_addresses_, [&](const auto& entry) { return !alive.contains(entry.first); });
}

Result<Stack> StackReader::TryToRead(RemoteAddress thread, std::size_t max_depth) {
  ASSIGN_OR_RETURN(const RemoteAddress innermost, InnermostFrame(thread));
  std::vector<RemoteAddress>& last = last_addresses_[thread.address];
  ASSIGN_OR_RETURN(const Chain chain, ReadChain(innermost, max_depth, last));
  last.clear();
  for (const RawFrame& frame : chain.frames) last.push_back(frame.address);
  // Code objects are read between the two readings of the chain: while it stands they are alive.
  Stack stack;
  stack.truncated = chain.truncated;
  ASSIGN_OR_RETURN(stack.frames, Describe(chain));
  RETURN_IF_ERROR(CheckUnchanged(thread, chain));
  return stack;
}

Result<RemoteAddress> StackReader::InnermostFrame(RemoteAddress thread) const {
  if (offsets_.thread.c_frame == kAbsent) {
    return memory_->ReadValue((thread + offsets_.thread.frame).As<RemoteAddress>());
  }
  ASSIGN_OR_RETURN(const RemoteAddress record,
                   memory_->ReadValue((thread + offsets_.thread.c_frame).As<RemoteAddress>()));
  if (!record) return RemoteAddress{};
  return memory_->ReadValue((record + offsets_.c_frame_current).As<RemoteAddress>());
}

Result<StackReader::Chain> StackReader::ReadChain(RemoteAddress innermost, std::size_t max_depth,
                                                  const std::vector<RemoteAddress>& likely) const {
  std::unordered_map<std::uint64_t, RawFrame> fetched;
  fetched.reserve(likely.size());
  if (auto guess = ReadFrames(likely); guess.ok()) {
    for (const RawFrame& frame : *guess) fetched.emplace(frame.address.address, frame);
  }
  Chain chain;
  std::unordered_set<std::uint64_t> seen;
  for (RemoteAddress at = innermost; at;) {
    if (chain.frames.size() >= max_depth) {
      chain.truncated = true;
      break;
    }
    if (!seen.insert(at.address).second) return Changed("frames in a circle");
    if (const auto known = fetched.find(at.address); known != fetched.end()) {
      chain.frames.push_back(known->second);
    } else {
      ASSIGN_OR_RETURN(const auto frame, ReadFrames({at}));
      chain.frames.push_back(frame.front());
    }
    at = chain.frames.back().previous;
  }
  return chain;
}

Result<std::vector<StackReader::RawFrame>> StackReader::ReadFrames(
    const std::vector<RemoteAddress>& addresses) const {
  ASSIGN_OR_RETURN(const Blocks blocks, Blocks::Read(*memory_, addresses, frame_bytes_));
  std::vector<RawFrame> frames;
  frames.reserve(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const BlockView block = blocks[i];
    RawFrame frame;
    frame.address = addresses[i];
    frame.previous = block.GetPointer(offsets_.frame.previous);
    frame.code = {block.Get<std::uint64_t>(offsets_.frame.code) & ~kTagBits};
    frame.instruction = offsets_.instruction_index_unit != 0
                            ? static_cast<std::uint64_t>(block.Get<std::int32_t>(offsets_.frame.instruction))
                            : block.Get<std::uint64_t>(offsets_.frame.instruction);
    frame.bytecode_index = block.Get<std::int32_t>(offsets_.frame.bytecode_index);
    frame.owner = block.Get<std::uint8_t>(offsets_.frame.owner);
    frames.push_back(frame);
  }
  return frames;
}

Result<void> StackReader::CheckUnchanged(RemoteAddress thread, const Chain& chain) const {
  ASSIGN_OR_RETURN(const RemoteAddress innermost, InnermostFrame(thread));
  if (innermost != (chain.frames.empty() ? RemoteAddress{} : chain.frames.front().address)) {
    return Changed("innermost frame");
  }
  std::vector<RemoteAddress> addresses;
  for (const RawFrame& frame : chain.frames) addresses.push_back(frame.address);
  ASSIGN_OR_RETURN(const auto again, ReadFrames(addresses));
  for (std::size_t i = 0; i < again.size(); ++i) {
    const RawFrame& before = chain.frames[i];
    if (again[i].previous != before.previous || again[i].code != before.code) return Changed("frames");
    // The innermost frame runs; the others wait in a call.
    if (i > 0 && again[i].instruction != before.instruction) return Changed("positions");
  }
  return {};
}

bool StackReader::IsInternal(const RawFrame& frame) const {
  return offsets_.frame.owner != kAbsent && frame.owner >= offsets_.first_internal_owner;
}

Result<std::vector<Frame>> StackReader::Describe(const Chain& chain) {
  std::vector<RemoteAddress> needed;
  for (const RawFrame& frame : chain.frames) {
    if (!IsInternal(frame)) needed.push_back(frame.code);
  }
  RETURN_IF_ERROR(codes_.Load(needed));
  std::vector<Frame> frames;
  frames.reserve(needed.size());
  for (const RawFrame& raw : chain.frames) {
    if (IsInternal(raw)) continue;
    const CodeInfo& code = codes_.Get(raw.code);
    ASSIGN_OR_RETURN(const std::int64_t position, PositionInBytecode(raw, code));
    const bool being_set_up = offsets_.code.first_traceable != kAbsent && raw.owner != kOwnedByGenerator &&
                              position < code.first_traceable_byte;
    if (being_set_up) continue;
    frames.push_back({code.function, code.file,
                      FindLine(offsets_.line_table_format, code.line_table, code.first_line, position),
                      code.first_line});
  }
  return frames;
}

Result<std::int64_t> StackReader::PositionInBytecode(const RawFrame& frame, const CodeInfo& code) const {
  if (offsets_.instruction_index_unit != 0) {
    return static_cast<std::int64_t>(frame.instruction) * offsets_.instruction_index_unit;
  }
  RemoteAddress start = frame.code + offsets_.code.bytecode;
  if (offsets_.code.bytecode_copies != kAbsent && code.bytecode_copies) {
    // struct { Py_ssize_t size; char* entries[]; }
    ASSIGN_OR_RETURN(const std::int64_t count, memory_->ReadValue(code.bytecode_copies.As<std::int64_t>()));
    if (frame.bytecode_index < 0 || frame.bytecode_index >= count) return Changed("bytecode index");
    const std::uint64_t entry = 8 + 8 * static_cast<std::uint64_t>(frame.bytecode_index);
    ASSIGN_OR_RETURN(start, memory_->ReadValue((code.bytecode_copies + entry).As<RemoteAddress>()));
  }
  const auto position = static_cast<std::int64_t>(frame.instruction - start.address);
  // A frame that just starts may stand one unit before its bytecode.
  if (position < -2 || position > kMaxBytecodeBytes) return Changed("position outside of the bytecode");
  return position;
}

}  // namespace probing::cpython
