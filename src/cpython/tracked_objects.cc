#include "cpython/tracked_objects.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kGenerations = 3;
constexpr std::uint64_t kFlagBits = 3;  // in both links, since 3.8
constexpr int kAttempts = 5;
constexpr int kStepsBack = 200;          // in one walk: so many changes are met
constexpr std::size_t kMaxTrail = 4096;  // objects that a walk can go back to
constexpr std::size_t kMaxObjects = 1U << 25U;
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

  // True: it came to the end of the list that begins at `head`, one of `heads`. The newest come first.
  bool Walk(std::uint64_t head, const std::vector<std::uint64_t>& heads, const Deadline& deadline) {
    chunks_.Forget();
    int steps_back = kStepsBack;
    trail_.assign(1, head);
    Links links;
    if (!ReadLinks(head, links)) return false;
    std::uint64_t at = links.previous;
    for (std::size_t i = 0; at != head; ++i) {
      if (i >= kMaxObjects || (i % kCheckTimeEvery == 0 && deadline.passed())) return false;
      // An object of the trail is in another list by now.
      if (std::find(heads.begin(), heads.end(), at) != heads.end()) return false;
      std::uint64_t type = 0;
      if (!ReadLinks(at, links) || links.next != trail_.back() ||
          !ReadWord(at + offsets_.collector.head + offsets_.object_type, type)) {
        if (--steps_back < 0 || !StepBack(at)) return false;
        continue;
      }
      if (IsWanted(type)) found_.push_back({at + offsets_.collector.head});
      if (trail_.size() >= kMaxTrail) trail_.erase(trail_.begin(), trail_.begin() + kMaxTrail / 2);
      trail_.push_back(at);
      at = links.previous;
    }
    return true;
  }

  // Each once. Those that several walks saw are in it several times until then.
  std::vector<RemoteAddress> Take() {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  struct Links {
    std::uint64_t next = 0;
    std::uint64_t previous = 0;
  };

  bool ReadLinks(std::uint64_t address, Links& out) {
    if (!chunks_.Read(address, std::as_writable_bytes(std::span(&out, 1)))) return false;
    out.next &= ~kFlagBits;
    out.previous &= ~kFlagBits;
    return true;
  }

  bool ReadWord(std::uint64_t address, std::uint64_t& out) {
    return chunks_.Read(address, std::as_writable_bytes(std::span(&out, 1)));
  }

  // To the last object that still is between those it was between, as the memory is now; `at` is what comes
  // after it. False: there is none.
  bool StepBack(std::uint64_t& at) {
    chunks_.Forget();
    Links links;
    for (; trail_.size() > 1; trail_.pop_back()) {
      if (!ReadLinks(trail_.back(), links) || links.next != trail_[trail_.size() - 2]) continue;
      at = links.previous;
      return true;
    }
    if (!ReadLinks(trail_.back(), links)) return false;
    at = links.previous;
    return true;
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
  std::vector<std::uint64_t> trail_;  // the list's head, or an object, and what was seen after it
  std::vector<RemoteAddress> found_;
};

bool IsListHead(const Memory& memory, std::uint64_t address, std::uint64_t next, std::uint64_t previous) {
  next &= ~kFlagBits;
  previous &= ~kFlagBits;
  if (next == address || previous == address) return next == previous;
  if (next == 0 || previous == 0 || next % alignof(void*) != 0 || previous % alignof(void*) != 0)
    return false;
  const auto back = memory.ReadValue(RemoteAddress{next + 8}.As<std::uint64_t>());
  const auto forth = memory.ReadValue(RemoteAddress{previous}.As<std::uint64_t>());
  return back.ok() && forth.ok() && (*back & ~kFlagBits) == address && (*forth & ~kFlagBits) == address;
}

// Of 3.14, which has generations of one kind or another, depending on its third number: all lists in the
// state of the collector. Nothing when one of them is changed just now.
std::vector<std::uint64_t> FindListHeads(const Memory& memory, std::uint64_t start, std::uint64_t end) {
  std::vector<std::uint64_t> words((end - start) / 8);
  std::vector<std::uint64_t> heads;
  for (int i = 0; i < kAttempts && heads.size() < kGenerations + 1; ++i) {
    heads.clear();
    if (!memory.Read({start}, std::as_writable_bytes(std::span(words))).ok()) break;
    for (std::size_t k = 0; k + 1 < words.size(); ++k) {
      const std::uint64_t address = start + k * 8;
      if (IsListHead(memory, address, words[k], words[k + 1])) heads.push_back(address);
    }
  }
  return heads.size() == kGenerations + 1 ? heads : std::vector<std::uint64_t>();
}

// The lists of objects, or none, and why.
Result<std::vector<std::uint64_t>> ListsOf(const Memory& memory, const Location& location,
                                           const InterpreterState& interpreter) {
  const Offsets& offsets = location.offsets;
  if (offsets.interpreter.collector != kAbsent) {
    auto heads = FindListHeads(memory, interpreter.address.address + offsets.interpreter.collector,
                               interpreter.address.address + offsets.interpreter.collecting);
    if (heads.empty()) return Error{Code::kFailed, "the lists of objects were not found", ""};
    return heads;
  }
  std::uint64_t first = 0;
  bool has_frozen = true;
  if (offsets.interpreter.generations != kAbsent) {
    first = interpreter.address.address + offsets.interpreter.generations;
  } else if (offsets.runtime.generations != kAbsent) {
    first =
        location.first_interpreter.address - offsets.runtime.interpreters_head + offsets.runtime.generations;
  } else if (location.generations) {
    ASSIGN_OR_RETURN(first, memory.ReadValue(location.generations.As<std::uint64_t>()));
    has_frozen = false;  // gc.freeze() is of 3.7
  } else {
    return Error{Code::kFailed, "the objects of Python " + location.version.ToText() + " cannot be listed",
                 ""};
  }
  const std::uint64_t size = offsets.collector.generation;
  std::vector<std::uint64_t> lists;
  for (std::uint64_t i = 0; i < kGenerations; ++i) lists.push_back(first + i * size);
  // The list of frozen ones follows a pointer.
  const std::uint64_t alignment = offsets.collector.head == 16 ? 8 : 16;
  if (has_frozen) lists.push_back(first + kGenerations * size + alignment);
  return lists;
}

}  // namespace

TrackedObjects FindTracked(const Memory& memory, const Location& location,
                           const InterpreterState& interpreter, std::int64_t limit_ms,
                           const std::function<bool(RemoteAddress type)>& is_wanted) {
  const auto lists = ListsOf(memory, location, interpreter);
  if (!lists.ok()) return {{}, lists.error().message};
  const Deadline deadline = Deadline::AfterMs(limit_ms);
  Walker walker(memory, location.offsets, is_wanted);
  bool is_whole = true;
  for (const std::uint64_t list : *lists) {
    bool ended = walker.Walk(list, *lists, deadline);
    for (int i = 1; i < kAttempts && !ended && !deadline.passed(); ++i)
      ended = walker.Walk(list, *lists, deadline);
    is_whole = is_whole && ended;
  }
  if (is_whole) return {walker.Take(), ""};
  if (!deadline.passed())
    return {walker.Take(), "the lists of objects changed while they were read; try again"};
  return {walker.Take(), "not all objects could be looked at within " + std::to_string(limit_ms) + " ms",
          true};
}

}  // namespace probing::cpython
