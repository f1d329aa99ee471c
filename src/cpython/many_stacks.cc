// The stacks of many threads at once: a few system calls for all of them instead of a dozen for each.
//
// Most threads of a job wait. Theirs are read here, with the same checks as in StackReader::Read(); a
// thread that moves meanwhile is left to that.
#include <algorithm>

#include "cpython/block.h"
#include "cpython/frame_chain.h"
#include "cpython/stack_reader.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxPieces = 1000;  // of one system call; the kernel takes 1,024
// Since 3.11 a frame lies right after its caller's, mostly: what is before it is read with it.
constexpr std::uint64_t kWindowBytes = 2048;
constexpr std::uint64_t kPageBytes = 4096;
// Deeper stacks of older Pythons are left to Walk().
constexpr int kMaxRounds = 64;

Error NotRead() { return {Code::kFailed, "the stack changed while it was read", ""}; }

// Reads one pointer for each entry of `at`. False: some could not be read.
bool ReadPointers(const Memory& memory, const std::vector<RemoteAddress>& at,
                  std::vector<RemoteAddress>& out) {
  out.assign(at.size(), {});
  std::vector<Memory::Piece> pieces;
  pieces.reserve(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    pieces.push_back({at[i], std::as_writable_bytes(std::span(&out[i], 1))});
  }
  return memory.ReadPieces(pieces).ok();
}

// Not before the frame's page, which may be the first that is mapped.
std::uint64_t StartOfWindow(std::uint64_t frame, std::uint64_t end, bool callers_are_near) {
  if (!callers_are_near || end < kWindowBytes) return frame;
  return std::max(frame / kPageBytes * kPageBytes, end - kWindowBytes);
}

}  // namespace

std::vector<ChainPlaces> FrameChainReader::WalkMany(const std::vector<RemoteAddress>& threads,
                                                    std::size_t max_depth) const {
  std::vector<ChainPlaces> places(threads.size());
  const bool has_record = offsets_.thread.c_frame != kAbsent;
  std::vector<std::size_t> open(threads.size());  // indexes of the chains whose end is not reached
  std::vector<RemoteAddress> at;
  std::vector<RemoteAddress> found;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    open[i] = i;
    at.push_back(threads[i] + (has_record ? offsets_.thread.c_frame : offsets_.thread.frame));
  }
  if (!ReadPointers(*memory_, at, found)) return places;
  if (has_record) {
    at.clear();
    std::erase_if(open, [&](std::size_t i) { return !found[i]; });
    for (const std::size_t i : open) {
      places[i].record = found[i];
      at.push_back(found[i] + offsets_.c_frame_current);
    }
    if (!ReadPointers(*memory_, at, found)) return places;
  }
  // A round for all chains, then one for those that go on elsewhere. One that leads in a circle ends with the
  // rounds, and no sweep will find it whole.
  std::vector<std::byte> bytes;
  std::vector<Memory::Piece> pieces;
  for (int round = 0; round < kMaxRounds && !open.empty(); ++round) {
    std::vector<std::size_t> still_open;
    at.clear();
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (!found[i]) continue;
      still_open.push_back(open[i]);
      at.push_back(found[i]);
    }
    open = std::move(still_open);
    bytes.resize(open.size() * kWindowBytes);
    pieces.clear();
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::uint64_t end = at[i].address + offsets_.frame.previous + sizeof(RemoteAddress);
      const std::uint64_t start = StartOfWindow(at[i].address, end, offsets_.frame.owner != kAbsent);
      if (end < start || end - start > kWindowBytes) return places;
      pieces.push_back({{start}, std::span(bytes).subspan(i * kWindowBytes, end - start)});
    }
    if (!memory_->ReadPieces(pieces).ok()) break;
    found.assign(open.size(), {});
    for (std::size_t i = 0; i < open.size(); ++i) {
      found[i] = Follow(BlockView(pieces[i].out), pieces[i].from, at[i], max_depth, places[open[i]]);
    }
  }
  return places;
}

RemoteAddress FrameChainReader::Follow(const BlockView& window, RemoteAddress start, RemoteAddress frame,
                                       std::size_t max_depth, ChainPlaces& places) const {
  // Each lower than the one before: no circle keeps us here. The window ends with the first one's fields.
  std::uint64_t below = frame.address + 1;
  while (frame.address >= start.address && frame.address < below) {
    below = frame.address;
    places.truncated = places.frames.size() >= max_depth;
    if (places.truncated) return {};
    places.frames.push_back(frame);
    frame = window.GetPointer(static_cast<std::uint32_t>(below - start.address + offsets_.frame.previous));
  }
  return frame;
}

std::vector<Result<std::vector<RawFrame>>> FrameChainReader::SweepMany(
    const std::vector<RemoteAddress>& threads, const std::vector<ChainPlaces>& places) const {
  std::vector<Result<std::vector<RawFrame>>> chains;
  std::vector<PreparedSweep> sweeps(threads.size());
  std::vector<Memory::Piece> pieces;
  std::size_t first = 0;  // of those whose pieces wait
  const auto flush = [&](std::size_t end) {
    const bool ok = memory_->ReadPieces(pieces).ok();
    for (; first < end; ++first) {
      const bool read = ok && sweeps[first].places != nullptr;
      chains.push_back(read ? Finish(sweeps[first]) : Result<std::vector<RawFrame>>(NotRead()));
    }
    pieces.clear();
  };
  for (std::size_t i = 0; i < threads.size(); ++i) {
    auto sweep = Prepare(threads[i], places[i]);
    if (!sweep.ok()) continue;
    sweeps[i] = std::move(*sweep);
    const std::size_t before = pieces.size();
    AddPieces(sweeps[i], pieces);
    if (pieces.size() <= kMaxPieces || before == 0) continue;
    pieces.resize(before);
    flush(i);
    AddPieces(sweeps[i], pieces);
  }
  flush(threads.size());
  return chains;
}

std::vector<Stack> StackReader::ReadMany(const std::vector<RemoteAddress>& threads,
                                         const StackOptions& options) {
  std::vector<Stack> stacks(threads.size());
  const std::vector<ChainPlaces> places = chains_.WalkMany(threads, options.max_depth);
  const auto first = chains_.SweepMany(threads, places);
  std::vector<RemoteAddress> codes;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (!places[i].truncated)
      places_[threads[i].address] = places[i];  // Walk() keeps both ends of a deep one
    for (const RawFrame& frame : first[i].ok() ? *first[i] : std::vector<RawFrame>{}) {
      if (!frame.is_internal) codes.push_back(frame.code);
    }
  }
  const bool have_codes = codes_.Load(codes).ok();
  for (std::size_t i = 0; i < threads.size(); ++i) {
    Stack& stack = stacks[i];
    stack.torn = !have_codes || !first[i].ok() || places[i].truncated || IsDoubtful(*first[i], places[i]) ||
                 !DescribeLoaded(*first[i], 0, stack).ok();
  }
  for (int sweep = 0; sweep < kSecondSweeps; ++sweep) {
    const auto again = chains_.SweepMany(threads, places);
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (stacks[i].torn) continue;
      stacks[i].torn = !again[i].ok() || !IsSameChain(*first[i], *again[i], options.must_stand_still ? 0 : 1);
    }
  }
  for (Stack& stack : stacks) {
    if (!stack.torn) continue;
    stack = {};  // never a guess
    stack.torn = true;
  }
  return stacks;
}

}  // namespace probing::cpython
