#include "cpython/frame_chain.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "cpython/block.h"
#include "process/page_cache.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kTagBits = 7;          // 3.14 marks borrowed references in the low bits
constexpr std::uint8_t kOwnedByGenerator = 1;  // enum _frameowner, the same since 3.11
// Frames closer than this are read as one piece: it is faster, and leaves no time between them.
constexpr std::uint64_t kMaxGapBytes = 1024;
// Of a stack that is too deep: who called it says more than one more frame of a recursion.
constexpr std::size_t kOutermostKept = 64;
constexpr std::size_t kMaxWalked = 1 << 17;  // to find the outermost frames

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
  if (auto guess = ReadEach(likely.frames); guess.ok()) {
    for (const RawFrame& frame : *guess) previous_of.emplace(frame.address.address, frame.previous);
  }
  ChainPlaces places;
  places.record = head.record;
  places.max_depth = max_depth;
  const std::size_t outermost = std::min(kOutermostKept, max_depth / 2);
  std::deque<Step> last;  // those behind the innermost ones
  const process::PageCache pages(*memory_);
  std::unordered_set<std::uint64_t> seen;
  for (RemoteAddress at = head.innermost; at;) {
    if (!seen.insert(at.address).second) return Changed("frames in a circle");
    if (seen.size() > std::max(kMaxWalked, max_depth)) {
      places.truncated = true;
      return places;
    }
    const auto known = previous_of.find(at.address);
    if (places.frames.size() >= max_depth - outermost) {
      ASSIGN_OR_RETURN(const Step step, ReadStep(pages, at));
      last.push_back(step);
      if (last.size() > outermost) {
        places.gap = places.frames.size();
        if (!last.front().is_internal) ++places.left_out;
        last.pop_front();
      }
      at = step.previous;
      continue;
    }
    places.frames.push_back(at);
    if (known != previous_of.end()) {
      at = known->second;
    } else {
      ASSIGN_OR_RETURN(at, memory_->ReadValue((at + offsets_.frame.previous).As<RemoteAddress>()));
    }
  }
  for (const Step& step : last) places.frames.push_back(step.address);
  return places;
}

Result<FrameChainReader::Step> FrameChainReader::ReadStep(const Memory& memory, RemoteAddress frame) const {
  ASSIGN_OR_RETURN(const Block block, Block::Read(memory, frame, frame_bytes_));
  const RawFrame raw = Decode(offsets_, frame, block.view());
  return Step{frame, raw.previous, raw.is_internal};
}

Result<std::vector<RawFrame>> FrameChainReader::Sweep(RemoteAddress thread, const ChainPlaces& places) const {
  ASSIGN_OR_RETURN(PreparedSweep sweep, Prepare(thread, places));
  std::vector<Memory::Piece> pieces;
  AddPieces(sweep, pieces);
  RETURN_IF_ERROR(memory_->ReadPieces(pieces));
  return Finish(sweep);
}

Result<FrameChainReader::PreparedSweep> FrameChainReader::Prepare(RemoteAddress thread,
                                                                  const ChainPlaces& places) const {
  PreparedSweep sweep;
  sweep.thread = thread;
  sweep.places = &places;
  sweep.expected = {places.record, places.frames.empty() ? RemoteAddress{} : places.frames.front()};
  sweep.before = sweep.expected;
  sweep.after = sweep.expected;
  ASSIGN_OR_RETURN(sweep.frames, FrameBytes::Plan(places.frames, frame_bytes_));
  return sweep;
}

void FrameChainReader::AddPieces(PreparedSweep& sweep, std::vector<Memory::Piece>& pieces) const {
  const auto add_head = [&](Head& head) {
    if (offsets_.thread.c_frame == kAbsent) {
      pieces.push_back(PieceOf(sweep.thread + offsets_.thread.frame, head.innermost));
      return;
    }
    pieces.push_back(PieceOf(sweep.thread + offsets_.thread.c_frame, head.record));
    if (!sweep.places->record) return;
    pieces.push_back(PieceOf(sweep.places->record + offsets_.c_frame_current, head.innermost));
  };
  add_head(sweep.before);
  sweep.frames.AddPieces(pieces);
  add_head(sweep.after);
}

Result<std::vector<RawFrame>> FrameChainReader::Finish(const PreparedSweep& sweep) const {
  if (sweep.before != sweep.expected || sweep.after != sweep.expected) return Changed("innermost frame");
  std::vector<RawFrame> frames = DecodeAll(sweep.places->frames, sweep.frames);
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    if (sweep.places->gap != 0 && i + 1 == sweep.places->gap) continue;
    if (frames[i].previous != frames[i + 1].address) return Changed("order of frames");
  }
  RETURN_IF_ERROR(CheckWhole(frames, sweep.places->truncated));
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

Result<std::vector<RawFrame>> FrameChainReader::ReadEach(const std::vector<RemoteAddress>& addresses) const {
  ASSIGN_OR_RETURN(FrameBytes bytes, FrameBytes::Plan(addresses, frame_bytes_));
  std::vector<Memory::Piece> pieces;
  bytes.AddPieces(pieces);
  RETURN_IF_ERROR(memory_->ReadPieces(pieces));
  return DecodeAll(addresses, bytes);
}

std::vector<RawFrame> FrameChainReader::DecodeAll(const std::vector<RemoteAddress>& addresses,
                                                  const FrameBytes& bytes) const {
  std::vector<RawFrame> frames;
  frames.reserve(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    frames.push_back(Decode(offsets_, addresses[i], BlockView(bytes.Of(i))));
  }
  return frames;
}

Result<FrameBytes> FrameBytes::Plan(const std::vector<RemoteAddress>& addresses, std::size_t frame_bytes) {
  std::vector<std::uint32_t> order(addresses.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return addresses[a] < addresses[b]; });

  FrameBytes plan;
  plan.frame_bytes_ = frame_bytes;
  plan.places_.resize(addresses.size());
  std::size_t total = 0;
  for (const std::uint32_t index : order) {
    const std::uint64_t start = addresses[index].address;
    if (start > UINT64_MAX - frame_bytes) return Changed("a frame beyond all memory");
    const std::uint64_t end = start + frame_bytes;
    if (plan.ranges_.empty() || start > plan.ranges_.back().end + kMaxGapBytes) {
      plan.ranges_.push_back({start, end, total});
      total += frame_bytes;
    } else {
      Range& last = plan.ranges_.back();
      total += end - std::min(last.end, end);
      last.end = std::max(last.end, end);
    }
    plan.places_[index] = plan.ranges_.back().at + (start - plan.ranges_.back().start);
  }
  plan.bytes_.resize(total);
  return plan;
}

void FrameBytes::AddPieces(std::vector<Memory::Piece>& pieces) {
  for (const Range& range : ranges_) {
    pieces.push_back({{range.start}, std::span(bytes_).subspan(range.at, range.end - range.start)});
  }
}

}  // namespace probing::cpython
