// The events of a trace as they are in its file, in little memory: one number for each text.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace probing::trace {

// Each text once. 0 is "no text".
class Texts {
 public:
  using Id = std::uint32_t;
  Texts() { Keep(""); }
  // 0 once they take more than `kMostBytes`, and of texts longer than kLongest what fits.
  Id Keep(std::string_view text);
  std::string_view At(Id id) const { return texts_[id]; }
  std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kMostBytes = 256 << 20;
  static constexpr std::size_t kLongest = 16384;
  std::deque<std::string> texts_;  // never moves
  std::unordered_map<std::string_view, Id> ids_;
  std::size_t bytes_ = 0;
  std::uint64_t lost_ = 0;
};

inline constexpr std::int64_t kNoNumber = INT64_MIN;  // an event has none of this kind

enum class OpKind : std::uint8_t { kOp, kAnnotation, kRuntime, kPython };
enum class GpuKind : std::uint8_t { kKernel, kMemcpy, kMemset, kSync, kAnnotation };

const char* NameOf(OpKind kind);
const char* NameOf(GpuKind kind);

// Something that a thread did.
struct Op {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t id = kNoNumber;           // "External id"
  std::int64_t correlation = kNoNumber;  // of runtime calls
  std::int64_t sequence = kNoNumber;
  std::int64_t thread = 0;
  Texts::Id name = 0, shapes = 0, dtypes = 0, stack = 0, hierarchy = 0;
  OpKind kind = OpKind::kOp;
  // Found by Arrange() (timeline.h).
  std::int64_t self_ns = 0;
  std::int64_t parent_id = kNoNumber;
  std::int64_t step = kNoNumber;
  std::int64_t bytes = kNoNumber;
  std::uint32_t op = 0;  // 1 + index of the operator that it is, or that is around it; 0: none
  Texts::Id scope = 0, module = 0;
  std::int32_t depth = 0;
};

// Something that a device did.
struct GpuEvent {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = kNoNumber;
  std::int64_t op_id = kNoNumber;  // "External id", until Arrange() has found the operator
  std::int64_t device = kNoNumber;
  std::int64_t stream = kNoNumber;
  std::int64_t bytes = kNoNumber;
  Texts::Id name = 0, grid = 0, block = 0;
  GpuKind kind = GpuKind::kKernel;
  bool is_communication = false;
  // Found by Arrange().
  Texts::Id op = 0, module = 0, scope = 0;
  std::int64_t step = kNoNumber;
  std::int64_t launch_ns = kNoNumber;
};

// Memory that was allocated, or freed when it is negative.
struct MemoryEvent {
  std::int64_t time_ns = 0;
  std::int64_t thread = 0;
  std::int64_t bytes = 0;
};

// A step, where the trace itself has none.
struct Step {
  std::int64_t start_ns = 0, end_ns = 0;  // since the epoch
  std::int64_t number = 0;
};

struct Events {
  std::vector<Op> ops;
  std::vector<GpuEvent> gpu;
  std::vector<MemoryEvent> memory;
  std::unordered_map<std::int64_t, Texts::Id> thread_names;
  std::vector<Step> steps;  // one after the other; those in the trace itself, ProfilerStep#N, are added
  Texts texts;
  std::int64_t base_ns = 0;  // is added to all times
  std::optional<std::int64_t> rank;
  std::string host;
  std::uint64_t lost = 0;  // events beyond the limit, or without a time
};

}  // namespace probing::trace
