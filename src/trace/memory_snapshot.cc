#include "trace/memory_snapshot.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace probing::trace {
namespace {

using Value = DataTree::Value;

constexpr std::size_t kMostFrames = 200;
constexpr std::size_t kMostDevices = 1024;
constexpr std::size_t kLongestName = 200;
// A file may refer to one list again and again: that must not become work without end.
constexpr std::uint64_t kMostEntries = 20'000'000;
constexpr std::uint64_t kMostReadFrames = 50'000'000;

// Addresses are below 2^63; a number that is negative or missing is none.
std::int64_t NumberOf(Value value) {
  const std::optional<std::int64_t> number = value.Int();
  return number && *number >= 0 ? *number : kNoNumber;
}

bool IsTorchs(std::string_view file) {
  if (file.empty() || file.starts_with('<') || file == "??") return true;
  if (file.find("/torch/") != std::string_view::npos) return true;
  constexpr std::string_view kNative[] = {".cpp", ".cc", ".c", ".h", ".cu", ".so"};  // of stacks="all"
  return std::ranges::any_of(kNative, [&](std::string_view end) { return file.ends_with(end); });
}

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class Reader {
 public:
  Reader(std::size_t most_blocks, MemorySnapshot& snapshot)
      : most_blocks_(most_blocks), snapshot_(snapshot) {}

  void ReadTraces(Value traces) {
    for (std::size_t device = 0; device < std::min(traces.size(), kMostDevices); ++device) {
      const Value trace = traces.at(device);
      auto& allocated = allocated_ns_[static_cast<std::int64_t>(device)];
      for (std::size_t i = 0; i < trace.size() && entries_++ < kMostEntries; ++i) {
        const Value entry = trace.at(i);
        const std::string_view action = entry.Get("action").Text();
        const std::int64_t time_us = NumberOf(entry.Get("time_us"));
        const std::int64_t time_ns =
            time_us == kNoNumber || time_us > INT64_MAX / 1000 ? kNoNumber : time_us * 1000;
        if (action == "alloc") allocated[NumberOf(entry.Get("addr"))] = time_ns;
        if (action == "oom") AddFailed(static_cast<std::int64_t>(device), entry, time_ns);
      }
    }
  }

  bool is_full() const { return entries_ >= kMostEntries; }

  void ReadSegment(Value segment) {
    ++entries_;
    MemoryBlock block;
    block.device = std::max<std::int64_t>(NumberOf(segment.Get("device")), 0);
    block.stream = NumberOf(segment.Get("stream"));
    block.segment = NumberOf(segment.Get("address"));
    block.segment_bytes = NumberOf(segment.Get("total_size"));
    block.segment_type = snapshot_.texts.Keep(segment.Get("segment_type").Text().substr(0, kLongestName));
    const Value blocks = segment.Get("blocks");
    std::int64_t next = block.segment;  // older snapshots give blocks no address: they follow each other
    for (std::size_t i = 0; i < blocks.size() && entries_++ < kMostEntries; ++i) {
      const Value value = blocks.at(i);
      block.bytes = std::max<std::int64_t>(NumberOf(value.Get("size")), 0);
      const std::int64_t address = NumberOf(value.Get("address"));
      block.address = address == kNoNumber ? next : address;
      next = block.address == kNoNumber || block.address > INT64_MAX - block.bytes
                 ? kNoNumber
                 : block.address + block.bytes;
      AddBlock(block, value);
    }
  }

 private:
  void AddBlock(MemoryBlock block, Value value) {
    const std::string_view state = value.Get("state").Text();
    block.state = state == "active_allocated" ? BlockState::kAllocated
                  : state == "inactive"       ? BlockState::kFree
                                              : BlockState::kPendingFree;
    const Value history = value.Get("history").at(0);  // until torch 2.0
    block.requested = NumberOf(value.Get("requested_size"));
    if (block.requested == kNoNumber) block.requested = NumberOf(history.Get("real_size"));
    if (block.state == BlockState::kFree) {
      block.requested = kNoNumber;
    } else {
      const auto device = allocated_ns_.find(block.device);
      if (device != allocated_ns_.end()) {
        const auto time = device->second.find(block.address);
        if (time != device->second.end()) block.allocated_ns = time->second;
      }
      const Value frames = value.Get("frames");
      SetStack(block, frames.size() > 0 ? frames : history.Get("frames"));
    }
    Add(block);
  }

  void AddFailed(std::int64_t device, Value entry, std::int64_t time_ns) {
    MemoryBlock block;
    block.device = device;
    block.stream = NumberOf(entry.Get("stream"));
    block.bytes = block.requested = std::max<std::int64_t>(NumberOf(entry.Get("size")), 0);
    block.state = BlockState::kFailed;
    block.allocated_ns = time_ns;
    SetStack(block, entry.Get("frames"));
    Add(block);
  }

  void Add(const MemoryBlock& block) {
    if (snapshot_.blocks.size() < most_blocks_)
      snapshot_.blocks.push_back(block);
    else
      ++snapshot_.lost;
  }

  // Frames are innermost first.
  void SetStack(MemoryBlock& block, Value frames) {
    const std::size_t count = frames_ < kMostReadFrames ? std::min(frames.size(), kMostFrames) : 0;
    frames_ += count;
    std::string stack;
    for (std::size_t i = count; i-- > 0;) {
      const Value frame = frames.at(i);
      const std::string_view file = frame.Get("filename").Text();
      if (!stack.empty()) stack += ';';
      for (const char c : frame.Get("name").Text().substr(0, kLongestName)) stack += c == ';' ? ',' : c;
      stack += " (";
      stack += LastPart(file).substr(0, kLongestName);
      stack += ':' + std::to_string(frame.Get("line").Int().value_or(0)) + ')';
    }
    block.stack = snapshot_.texts.Keep(stack);
    if (count == 0) return;
    Value place = frames.at(0);
    for (std::size_t i = 0; i < count; ++i) {
      if (IsTorchs(frames.at(i).Get("filename").Text())) continue;
      place = frames.at(i);
      break;
    }
    block.function = snapshot_.texts.Keep(place.Get("name").Text());
    block.file = snapshot_.texts.Keep(place.Get("filename").Text());
    block.line = NumberOf(place.Get("line"));
  }

  const std::size_t most_blocks_;
  MemorySnapshot& snapshot_;
  std::uint64_t entries_ = 0, frames_ = 0;  // that were read
  std::unordered_map<std::int64_t, std::unordered_map<std::int64_t, std::int64_t>> allocated_ns_;
};

}  // namespace

const char* NameOf(BlockState state) {
  switch (state) {
    case BlockState::kAllocated:
      return "allocated";
    case BlockState::kPendingFree:
      return "pending_free";
    case BlockState::kFree:
      return "free";
    case BlockState::kFailed:
      return "failed";
  }
  return "";
}

Result<MemorySnapshot> ReadMemorySnapshot(const DataTree& tree, std::size_t most_blocks) {
  const Value root = tree.root();
  // The oldest snapshots are a list of segments.
  const Value segments = root.kind() == DataTree::Kind::kList ? root : root.Get("segments");
  const bool is_one = segments.kind() == DataTree::Kind::kList &&
                      (segments.size() == 0 || segments.at(0).Get("blocks").kind() == DataTree::Kind::kList);
  if (!is_one) {
    return Error{Code::kFailed, "it is no snapshot of torch.cuda.memory",
                 "torch.cuda.memory._dump_snapshot() and `probing memory --gpu -o FILE` write such files"};
  }
  MemorySnapshot snapshot;
  Reader reader(most_blocks, snapshot);
  reader.ReadTraces(root.Get("device_traces"));
  for (std::size_t i = 0; i < segments.size() && !reader.is_full(); ++i) reader.ReadSegment(segments.at(i));
  return snapshot;
}

}  // namespace probing::trace
