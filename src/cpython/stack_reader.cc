#include "cpython/stack_reader.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "cpython/line_table.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::int64_t kMaxBytecodeBytes = 1 << 30;
constexpr int kConfirmations = 5;  // how often a doubtful stack must be seen, and nothing else
// Between two looks from the thread's own CPU it has to run a little: doubled each time, up to a limit.
constexpr std::int64_t kFirstPauseUs = 20;
constexpr std::int64_t kMaxPauseUs = 1000;

Error Changed(const char* what) {
  return {Code::kFailed, std::string("the stack changed while it was read: ") + what, ""};
}

}  // namespace

// The frames from `first_still` on wait in a call, so their position must stand still.
bool StackReader::IsSameChain(const std::vector<RawFrame>& a, const std::vector<RawFrame>& b,
                              std::size_t first_still) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].code != b[i].code || a[i].owner != b[i].owner) return false;
    if (i >= first_still && a[i].instruction != b[i].instruction) return false;
  }
  return true;  // where the frames are and how they are linked was checked by both sweeps
}

bool StackReader::IsDoubtful(const std::vector<RawFrame>& chain, const ChainPlaces& places) {
  return chain.empty() || (!places.truncated && chain.back().is_generator);
}

StackReader::StackReader(const Memory& memory, const Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      chains_(memory, location.offsets),
      codes_(memory, location),
      locals_(memory, location) {}

Stack StackReader::Read(RemoteAddress thread, const StackOptions& options) {
  int doubtful = 0;
  std::int64_t pause_us = kFirstPauseUs;
  for (int i = 0; i < options.attempts; ++i) {
    if (options.cpu != nullptr && i > 0) {
      if (!options.cpu->CanEver()) break;
      SleepUs(pause_us);
      pause_us = std::min(2 * pause_us, kMaxPauseUs);
    }
    auto attempt = TryToRead(thread, options);
    if (!attempt.ok()) continue;
    if (!attempt->doubtful || options.keep_doubtful) return std::move(*attempt);
    // Believed only when several attempts and no other say so.
    ++doubtful;
    if (doubtful == i + 1 && (doubtful == kConfirmations || doubtful == options.attempts))
      return std::move(*attempt);
  }
  Stack torn;
  torn.torn = true;
  return torn;
}

void StackReader::Keep(const std::vector<RemoteAddress>& threads) {
  std::unordered_set<std::uint64_t> alive;
  for (const RemoteAddress thread : threads) alive.insert(thread.address);
  std::erase_if(places_, [&](const auto& entry) { return !alive.contains(entry.first); });
}

Result<Stack> StackReader::TryToRead(RemoteAddress thread, const StackOptions& options) {
  ChainPlaces& places = places_[thread.address];
  if (options.cpu != nullptr && !options.cpu->Enter()) return Changed("the thread's CPU");
  // Somebody else may have wanted less of a deep stack.
  const bool is_other = (places.gap != 0 || places.truncated) && places.max_depth != options.max_depth;
  auto first = is_other ? Changed("how much of it is wanted") : chains_.Sweep(thread, places);
  if (!first.ok()) {
    ASSIGN_OR_RETURN(places, chains_.Walk(thread, options.max_depth, places));
    first = chains_.Sweep(thread, places);
    if (!first.ok()) return std::move(first.error());
  }
  Stack stack;
  stack.truncated = places.truncated || places.left_out > 0;
  stack.left_out = places.left_out;
  stack.doubtful = IsDoubtful(*first, places);
  // Code objects are read between the sweeps: while the chain stands they are alive.
  RETURN_IF_ERROR(Describe(*first, places.gap, stack));
  for (int i = 0; i < kSecondSweeps; ++i) {
    ASSIGN_OR_RETURN(const auto again, chains_.Sweep(thread, places));
    if (!IsSameChain(*first, again, options.must_stand_still ? 0 : 1)) return Changed("frames");
  }
  if (options.cpu != nullptr && !options.cpu->StoodStill()) return Changed("the thread ran");
  return stack;
}

Result<void> StackReader::Describe(const std::vector<RawFrame>& chain, std::size_t gap, Stack& stack) {
  std::vector<RemoteAddress> needed;
  for (const RawFrame& frame : chain) {
    if (!frame.is_internal) needed.push_back(frame.code);
  }
  RETURN_IF_ERROR(codes_.Load(needed));
  return DescribeLoaded(chain, gap, stack);
}

Result<void> StackReader::DescribeLoaded(const std::vector<RawFrame>& chain, std::size_t gap,
                                         Stack& stack) const {
  stack.frames.reserve(chain.size());
  std::size_t in_loop = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const RawFrame& raw = chain[i];
    if (gap != 0 && i == gap) {
      stack.left_out_at = stack.frames.size();
      if (in_loop > 0) stack.loops.push_back({std::exchange(in_loop, 0), 0});  // the rest of it is left out
    }
    if (raw.is_internal) {
      stack.loops.push_back({std::exchange(in_loop, 0), raw.address.address});
      continue;
    }
    const CodeInfo& code = codes_.Get(raw.code);
    ASSIGN_OR_RETURN(const std::int64_t position, PositionInBytecode(raw, code));
    const bool being_set_up =
        offsets_.code.first_traceable != kAbsent && !raw.is_generator && position < code.first_traceable_byte;
    if (!being_set_up) {
      stack.frames.push_back(
          {code.function, code.file,
           FindLine(offsets_.line_table_format, code.line_table, code.first_line, position),
           code.first_line});
      stack.raw.push_back(raw);
      ++in_loop;
    }
    if (raw.is_entry) stack.loops.push_back({std::exchange(in_loop, 0), 0});
  }
  if (in_loop > 0) stack.loops.push_back({in_loop, 0});  // the rest of its loop was truncated
  return {};
}

Result<std::vector<Frame>> StackReader::DescribeWaiting(const std::vector<RawFrame>& frames) {
  Stack stack;
  RETURN_IF_ERROR(Describe(frames, 0, stack));
  return std::move(stack.frames);
}

void StackReader::AddLocals(RemoteAddress thread, std::size_t max_depth, int attempts, Stack& stack) {
  for (std::size_t i = 0; i < stack.frames.size(); ++i) stack.frames[i].locals = locals_.Read(stack.raw[i]);
  std::unordered_map<std::uint64_t, RawFrame> now;
  for (int i = 0; i < attempts && now.empty(); ++i) {
    const auto places = chains_.Walk(thread, max_depth, places_[thread.address]);
    const auto chain =
        places.ok() ? chains_.Sweep(thread, *places) : Result<std::vector<RawFrame>>(Changed(""));
    if (!chain.ok()) continue;
    for (const RawFrame& frame : *chain) now.emplace(frame.address.address, frame);
  }
  for (std::size_t i = 0; i < stack.frames.size(); ++i) {
    const auto same = now.find(stack.raw[i].address.address);
    const bool stayed = same != now.end() && same->second.code == stack.raw[i].code &&
                        (i == 0 || same->second.instruction == stack.raw[i].instruction);
    if (!stayed) stack.frames[i].locals.reset();
  }
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
