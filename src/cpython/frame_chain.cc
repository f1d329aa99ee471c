#include "cpython/frame_chain.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "cpython/block.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kTagBits = 7;          // 3.14 marks borrowed references in the low bits
constexpr std::uint8_t kOwnedByGenerator = 1;  // enum _frameowner, the same since 3.11
// Frames closer than this are read as one piece: it is faster, and leaves no time between them.
constexpr std::uint64_t kMaxGapBytes = 1024;

Error Changed(const char* what) {
  return {Code::kFailed, std::string("the stack changed while it was read: ") + what, ""};
}

std::size_t EndOfFields(const Offsets::Frame& frame) {
  std::size_t end = 0;
  for (const std::uint32_t field : {frame.previous, frame.code, frame.instruction, frame.owner,
                                    frame.generator, frame.executing, frame.entry, frame.bytecode_index}) {
    if (field != kAbsent) end = std::max<std::size_t>(end, field / 8 * 8 + std::size_t{8});
  }
  return end;
}

Memory::Piece PieceOf(RemoteAddress from, RemoteAddress& out) {
  return {from, std::as_writable_bytes(std::span(&out, 1))};
}

RawFrame Decode(const Offsets& offsets, RemoteAddress address, BlockView block) {
  const Offsets::Frame& fields = offsets.frame;
  RawFrame frame;
  frame.address = address;
  frame.previous = block.GetPointer(fields.previous);
  frame.code = {block.Get<std::uint64_t>(fields.code) & ~kTagBits};
  frame.instruction = offsets.instruction_index_unit != 0
                          ? static_cast<std::uint64_t>(block.Get<std::int32_t>(fields.instruction))
                          : block.Get<std::uint64_t>(fields.instruction);
  frame.bytecode_index = block.Get<std::int32_t>(fields.bytecode_index);
  frame.owner = block.Get<std::uint8_t>(fields.owner);
  frame.is_generator = frame.owner == kOwnedByGenerator || block.GetPointer(fields.generator);
  if (fields.executing != kAbsent) {
    const auto state = block.Get<std::int8_t>(fields.executing);
    frame.is_executing = state == offsets.executing_state || state == offsets.unwinding_state;
  }
  frame.is_entry = offsets.every_frame_is_entry || block.Get<std::uint8_t>(fields.entry) != 0;
  frame.is_internal = fields.owner != kAbsent && frame.owner >= offsets.first_internal_owner;
  return frame;
}

}  // namespace

FrameChainReader::FrameChainReader(const Memory& memory, const Offsets& offsets)
    : memory_(&memory), offsets_(offsets), frame_bytes_(EndOfFields(offsets.frame)) {}

Result<FrameChainReader::Head> FrameChainReader::ReadHead(RemoteAddress thread) const {
  Head head;
  if (offsets_.thread.c_frame == kAbsent) {
    ASSIGN_OR_RETURN(head.innermost,
                     memory_->ReadValue((thread + offsets_.thread.frame).As<RemoteAddress>()));
    return head;
  }
  ASSIGN_OR_RETURN(head.record, memory_->ReadValue((thread + offsets_.thread.c_frame).As<RemoteAddress>()));
  if (!head.record) return head;
  ASSIGN_OR_RETURN(head.innermost,
                   memory_->ReadValue((head.record + offsets_.c_frame_current).As<RemoteAddress>()));
  return head;
}

Result<ChainPlaces> FrameChainReader::Walk(RemoteAddress thread, std::size_t max_depth,
                                           const ChainPlaces& likely) const {
  ASSIGN_OR_RETURN(const Head head, ReadHead(thread));
  std::unordered_map<std::uint64_t, RemoteAddress> previous_of;
  if (auto guess = ReadFrames(likely.frames, {}, {}); guess.ok()) {
    for (const RawFrame& frame : *guess) previous_of.emplace(frame.address.address, frame.previous);
  }
  ChainPlaces places;
  places.record = head.record;
  std::unordered_set<std::uint64_t> seen;
  for (RemoteAddress at = head.innermost; at;) {
    if (places.frames.size() >= max_depth) {
      places.truncated = true;
      break;
    }
    if (!seen.insert(at.address).second) return Changed("frames in a circle");
    places.frames.push_back(at);
    if (const auto known = previous_of.find(at.address); known != previous_of.end()) {
      at = known->second;
    } else {
      ASSIGN_OR_RETURN(at, memory_->ReadValue((at + offsets_.frame.previous).As<RemoteAddress>()));
    }
  }
  return places;
}

Result<std::vector<RawFrame>> FrameChainReader::Sweep(RemoteAddress thread, const ChainPlaces& places) const {
  const Head expected{places.record, places.frames.empty() ? RemoteAddress{} : places.frames.front()};
  Head before = expected;
  Head after = expected;
  const auto pieces_of = [&](Head& head) -> std::vector<Memory::Piece> {
    if (offsets_.thread.c_frame == kAbsent) return {PieceOf(thread + offsets_.thread.frame, head.innermost)};
    std::vector<Memory::Piece> pieces{PieceOf(thread + offsets_.thread.c_frame, head.record)};
    if (places.record) pieces.push_back(PieceOf(places.record + offsets_.c_frame_current, head.innermost));
    return pieces;
  };
  ASSIGN_OR_RETURN(auto frames, ReadFrames(places.frames, pieces_of(before), pieces_of(after)));
  if (before != expected || after != expected) return Changed("innermost frame");
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    if (frames[i].previous != frames[i + 1].address) return Changed("order of frames");
  }
  RETURN_IF_ERROR(CheckWhole(frames, places.truncated));
  return frames;
}

// A frame that was left and is about to be used again has no caller: such a chain ends too early.
Result<void> FrameChainReader::CheckWhole(const std::vector<RawFrame>& frames, bool truncated) const {
  if (frames.empty()) return {};
  for (std::size_t i = 1; i < frames.size(); ++i) {
    if (!frames[i].is_executing) return Changed("a caller that does not run");
  }
  if (truncated) return {};
  const RawFrame& outermost = frames.back();
  if (outermost.previous || !outermost.is_executing) return Changed("outermost frame");
  // Since 3.12 every stack starts with a frame of the interpreter's own.
  if (offsets_.first_internal_owner != kNoOwner && !outermost.is_internal) return Changed("outermost frame");
  return {};
}

Result<std::vector<RawFrame>> FrameChainReader::ReadFrames(const std::vector<RemoteAddress>& addresses,
                                                           std::vector<Memory::Piece> before,
                                                           const std::vector<Memory::Piece>& after) const {
  std::vector<std::uint32_t> order(addresses.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return addresses[a] < addresses[b]; });

  struct Range {
    std::uint64_t start, end;
    std::size_t at;  // in `bytes`
  };
  std::vector<Range> ranges;
  std::vector<std::uint32_t> range_of(addresses.size());
  std::size_t total = 0;
  for (const std::uint32_t index : order) {
    const std::uint64_t start = addresses[index].address;
    if (start > UINT64_MAX - frame_bytes_) return Changed("a frame beyond all memory");
    const std::uint64_t end = start + frame_bytes_;
    if (ranges.empty() || start > ranges.back().end + kMaxGapBytes) {
      ranges.push_back({start, end, total});
      total += frame_bytes_;
    } else {
      total += end - std::min(ranges.back().end, end);
      ranges.back().end = std::max(ranges.back().end, end);
    }
    range_of[index] = static_cast<std::uint32_t>(ranges.size() - 1);
  }

  std::vector<std::byte> bytes(total);
  std::vector<Memory::Piece> pieces = std::move(before);
  for (const Range& range : ranges) {
    pieces.push_back({{range.start}, std::span(bytes).subspan(range.at, range.end - range.start)});
  }
  pieces.insert(pieces.end(), after.begin(), after.end());
  RETURN_IF_ERROR(memory_->ReadPieces(pieces));

  std::vector<RawFrame> frames;
  frames.reserve(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Range& range = ranges[range_of[i]];
    const std::size_t at = range.at + (addresses[i].address - range.start);
    frames.push_back(Decode(offsets_, addresses[i], BlockView(std::span(bytes).subspan(at, frame_bytes_))));
  }
  return frames;
}

}  // namespace probing::cpython
