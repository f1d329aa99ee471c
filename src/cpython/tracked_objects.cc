#include "cpython/tracked_objects.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "base/clock.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kGenerations = 3;
constexpr std::uint64_t kFlagBits = 3;  // in `previous`, since 3.8
constexpr int kAttempts = 5;
constexpr std::int64_t kTimeLimitMs = 1000;  // for all lists of one interpreter
constexpr std::size_t kMaxObjects = 1U << 24U;
constexpr std::size_t kCheckTimeEvery = 1U << 14U;

// Memory in pieces of 16 KB, each as it was when it was first needed.
class Chunks {
 public:
  explicit Chunks(const Memory& memory) : memory_(&memory) {}

  bool Read(std::uint64_t address, std::span<std::byte> out) {
    const std::uint64_t start = address / kBytes * kBytes;
    if (address + out.size() > start + kBytes) return memory_->Read({address}, out).ok();
    if (last_ == nullptr || last_start_ != start) {
      last_ = Find(start);
      last_start_ = start;
    }
    if (last_ == nullptr) return memory_->Read({address}, out).ok();
    std::copy_n(last_->begin() + static_cast<std::ptrdiff_t>(address - start), out.size(), out.begin());
    return true;
  }

  void Forget() {
    chunks_.clear();
    last_ = nullptr;
  }

 private:
  static constexpr std::uint64_t kBytes = 1 << 14;
  static constexpr std::size_t kMaxChunks = 4096;  // 64 MB
  using Chunk = std::array<std::byte, kBytes>;

  const Chunk* Find(std::uint64_t start) {
    if (const auto found = chunks_.find(start); found != chunks_.end()) return found->second.get();
    if (chunks_.size() >= kMaxChunks) chunks_.clear();
    auto chunk = std::make_unique<Chunk>();
    if (!memory_->Read({start}, *chunk).ok()) return nullptr;
    return chunks_.emplace(start, std::move(chunk)).first->second.get();
  }

  const Memory* memory_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Chunk>> chunks_;
  const Chunk* last_ = nullptr;
  std::uint64_t last_start_ = 0;
};

class Walker {
 public:
  Walker(const Memory& memory, const Offsets& offsets, const std::function<bool(RemoteAddress)>& is_wanted)
      : chunks_(memory), offsets_(offsets), is_wanted_(is_wanted) {}

  // True: it came to the end of the list that begins at `head`.
  bool Walk(std::uint64_t head, const Deadline& deadline) {
    chunks_.Forget();
    std::uint64_t before = head;
    std::uint64_t at = 0;
    if (!ReadWord(head, at)) return false;
    for (std::size_t i = 0; at != head; ++i) {
      if (i >= kMaxObjects || (i % kCheckTimeEvery == 0 && deadline.passed())) return false;
      std::array<std::uint64_t, 2> links{};
      if (!chunks_.Read(at, std::as_writable_bytes(std::span(links)))) return false;
      if ((links[1] & ~kFlagBits) != before) return false;
      std::uint64_t type = 0;
      if (!ReadWord(at + offsets_.collector.head + offsets_.object_type, type)) return false;
      if (IsWanted(type)) found_.insert({at + offsets_.collector.head});
      before = at;
      at = links[0];
    }
    return true;
  }

  std::vector<RemoteAddress> found() const { return {found_.begin(), found_.end()}; }

 private:
  bool ReadWord(std::uint64_t address, std::uint64_t& out) {
    return chunks_.Read(address, std::as_writable_bytes(std::span(&out, 1)));
  }

  bool IsWanted(std::uint64_t type) {
    if (type == last_type_) return last_is_wanted_;
    const auto [known, is_new] = wanted_.try_emplace(type, false);
    if (is_new) known->second = is_wanted_({type});
    last_type_ = type;
    last_is_wanted_ = known->second;
    return last_is_wanted_;
  }

  Chunks chunks_;
  const Offsets& offsets_;
  const std::function<bool(RemoteAddress)>& is_wanted_;
  std::unordered_map<std::uint64_t, bool> wanted_;  // by the address of the class
  std::uint64_t last_type_ = 0;
  bool last_is_wanted_ = false;
  std::set<RemoteAddress> found_;
};

}  // namespace

TrackedObjects FindTracked(const Memory& memory, const Location& location,
                           const InterpreterState& interpreter,
                           const std::function<bool(RemoteAddress type)>& is_wanted) {
  const Offsets& offsets = location.offsets;
  std::uint64_t first = 0;
  if (offsets.interpreter.generations != kAbsent) {
    first = interpreter.address.address + offsets.interpreter.generations;
  } else if (offsets.runtime.generations != kAbsent) {
    first =
        location.first_interpreter.address - offsets.runtime.interpreters_head + offsets.runtime.generations;
  } else {
    return {{}, "the objects of Python " + location.version.ToText() + " cannot be listed"};
  }
  // Those that were alive for long first, and then the list of frozen ones, which follows a pointer.
  const std::uint64_t size = offsets.collector.generation;
  std::vector<std::uint64_t> lists;
  for (std::uint64_t i = kGenerations; i-- > 0;) lists.push_back(first + i * size);
  const std::uint64_t alignment = offsets.collector.head == 16 ? 8 : 16;
  lists.push_back(first + kGenerations * size + alignment);

  const Deadline deadline = Deadline::AfterMs(kTimeLimitMs);
  Walker walker(memory, offsets, is_wanted);
  bool is_whole = true;
  for (const std::uint64_t list : lists) {
    bool ended = walker.Walk(list, deadline);
    for (int i = 1; i < kAttempts && !ended && !deadline.passed(); ++i) ended = walker.Walk(list, deadline);
    is_whole = is_whole && ended;
  }
  const char* reason = deadline.passed() ? "there are too many objects to look at all of them"
                                         : "the lists of objects changed while they were read; try again";
  return {walker.found(), is_whole ? "" : reason};
}

}  // namespace probing::cpython
