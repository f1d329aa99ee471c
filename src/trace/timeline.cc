#include "trace/timeline.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/text.h"

namespace probing::trace {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr std::string_view kModulePrefix = "nn.Module: ";

// Within the limits of a time, so that sums of three stay numbers.
std::int64_t Bounded(std::int64_t ns) {
  constexpr std::int64_t kMost = INT64_MAX / 4;
  return std::clamp(ns, -kMost, kMost);
}

// REQUIRES: its times are within their limits.
std::int64_t EndOf(const Op& op) { return op.start_ns + op.duration_ns; }

std::int64_t StepOf(std::string_view name) {
  std::int64_t step = kNoNumber;
  if (name.starts_with(kStepPrefix)) ParseNumber(name.substr(kStepPrefix.size()), step);
  return step;
}

class Timeline {
 public:
  explicit Timeline(Events& events) : events_(events), ops_(events.ops) {}

  void Arrange() {
    Sort();
    FindSteps();
    for (std::size_t i = 0; i < ops_.size(); ++i) Place(i);
    AddMemory();
    LinkBackward();
    LinkGpu();
  }

 private:
  struct OfThread {
    std::vector<std::uint32_t> open;  // indexes of what has not ended, the innermost last
  };

  void Sort() {
    const std::int64_t base_ns = Bounded(events_.base_ns);
    for (Op& op : ops_) {
      op.start_ns = Bounded(Bounded(op.start_ns) + base_ns);
      op.duration_ns = Bounded(op.duration_ns);
    }
    for (GpuEvent& event : events_.gpu) {
      event.start_ns = Bounded(Bounded(event.start_ns) + base_ns);
      event.duration_ns = Bounded(event.duration_ns);
    }
    for (MemoryEvent& event : events_.memory) event.time_ns = Bounded(Bounded(event.time_ns) + base_ns);
    // Of those that begin together the longest is outside, and of equal ones that which was written first; a
    // runtime call is never around an operator.
    std::ranges::stable_sort(ops_, [](const Op& a, const Op& b) {
      return std::tuple(a.start_ns, -a.duration_ns, a.kind == OpKind::kRuntime) <
             std::tuple(b.start_ns, -b.duration_ns, b.kind == OpKind::kRuntime);
    });
    std::ranges::stable_sort(events_.gpu, {}, &GpuEvent::start_ns);
    std::ranges::stable_sort(events_.memory, {}, &MemoryEvent::time_ns);
  }

  // Also for other threads: a backward pass has no step around it.
  void FindSteps() {
    for (const Op& op : ops_) {
      const std::int64_t step =
          op.kind == OpKind::kAnnotation ? StepOf(events_.texts.At(op.name)) : kNoNumber;
      if (step != kNoNumber) events_.steps.push_back({op.start_ns, EndOf(op), step});
    }
    std::ranges::stable_sort(events_.steps, {}, &Step::start_ns);
  }

  std::int64_t StepAt(std::int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(events_.steps, time_ns, {}, &Step::start_ns);
    if (after == events_.steps.begin() || time_ns >= std::prev(after)->end_ns) return kNoNumber;
    return std::prev(after)->number;
  }

  void Place(std::size_t index) {
    Op& op = ops_[index];
    std::vector<std::uint32_t>& open = threads_[op.thread].open;
    while (!open.empty() && EndOf(ops_[open.back()]) <= op.start_ns) open.pop_back();
    op.self_ns = op.duration_ns;
    op.step = StepAt(op.start_ns);
    op.op = op.kind == OpKind::kOp ? static_cast<std::uint32_t>(index) + 1 : 0;
    op.module = ModuleOf(op);
    Inherit(op, open);
    // Functions of Python do not take the time from what they call: operators' own time is as torch counts
    // it.
    for (auto around = open.rbegin(); around != open.rend(); ++around) {
      Op& outer = ops_[*around];
      const bool counts = op.kind == OpKind::kPython ? outer.kind == OpKind::kPython : true;
      if (!counts) continue;
      const std::int64_t shared_ns = std::min(EndOf(op), EndOf(outer)) - op.start_ns;
      outer.self_ns = std::max<std::int64_t>(outer.self_ns - shared_ns, 0);
      if (outer.kind != OpKind::kPython || op.kind == OpKind::kPython) break;
    }
    open.push_back(static_cast<std::uint32_t>(index));
  }

  // From the nearest that is around it.
  void Inherit(Op& op, const std::vector<std::uint32_t>& open) const {
    if (open.empty()) return;
    const Op& outer = ops_[open.back()];
    const std::string_view outer_name = events_.texts.At(outer.name);
    if (op.op == 0) op.op = outer.op;
    if (op.module == 0) op.module = outer.module;
    const bool is_scope = outer.kind == OpKind::kAnnotation && StepOf(outer_name) == kNoNumber;
    op.scope = is_scope ? outer.name : outer.scope;
    op.parent_id = outer.id != kNoNumber ? outer.id : outer.parent_id;
    op.depth = outer.depth + (outer.kind == OpKind::kPython ? 0 : 1);
  }

  Texts::Id ModuleOf(const Op& op) {
    if (op.hierarchy != 0) return op.hierarchy;
    const std::string_view name = events_.texts.At(op.name);
    if (op.kind != OpKind::kPython || !name.starts_with(kModulePrefix)) return 0;
    return events_.texts.Keep(name.substr(kModulePrefix.size()));
  }

  // What was allocated belongs to the innermost operator around it on its thread.
  void AddMemory() {
    for (auto& [thread, of_thread] : threads_) of_thread.open.clear();
    std::size_t next = 0;
    for (const MemoryEvent& event : events_.memory) {
      for (; next < ops_.size() && ops_[next].start_ns <= event.time_ns; ++next) {
        const Op& op = ops_[next];
        if (op.kind == OpKind::kPython) continue;
        std::vector<std::uint32_t>& open = threads_[op.thread].open;
        while (!open.empty() && EndOf(ops_[open.back()]) <= op.start_ns) open.pop_back();
        open.push_back(static_cast<std::uint32_t>(next));
      }
      std::vector<std::uint32_t>& open = threads_[event.thread].open;
      while (!open.empty() && EndOf(ops_[open.back()]) < event.time_ns) open.pop_back();
      if (open.empty()) continue;
      std::int64_t& bytes = ops_[open.back()].bytes;
      if (bytes == kNoNumber) bytes = 0;
      if (__builtin_add_overflow(bytes, event.bytes, &bytes)) bytes = kNoNumber;
    }
  }

  // A backward operator has the sequence number of its forward one, which is on another thread and earlier.
  void LinkBackward() {
    std::unordered_map<std::int64_t, std::uint32_t> forward;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Op& op = ops_[i];
      if (op.kind != OpKind::kOp || op.sequence == kNoNumber || op.sequence < 0) continue;
      const bool is_backward = events_.texts.At(op.name).starts_with("autograd::");
      if (!is_backward && op.module != 0)
        forward.insert_or_assign(op.sequence, static_cast<std::uint32_t>(i));
      const auto made = forward.find(op.sequence);
      if (is_backward && op.module == 0 && made != forward.end()) op.module = ops_[made->second].module;
    }
    if (forward.empty()) return;
    // What is within a backward operator, too.
    for (auto& [thread, of_thread] : threads_) of_thread.open.clear();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      std::vector<std::uint32_t>& open = threads_[ops_[i].thread].open;
      while (!open.empty() && EndOf(ops_[open.back()]) <= ops_[i].start_ns) open.pop_back();
      if (ops_[i].module == 0 && !open.empty()) ops_[i].module = ops_[open.back()].module;
      open.push_back(static_cast<std::uint32_t>(i));
    }
  }

  void LinkGpu() {
    std::unordered_map<std::int64_t, std::uint32_t> calls, operators;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (op.kind == OpKind::kRuntime && op.correlation != kNoNumber)
        calls.try_emplace(op.correlation, static_cast<std::uint32_t>(i));
      if (op.kind == OpKind::kOp && op.id != kNoNumber)
        operators.try_emplace(op.id, static_cast<std::uint32_t>(i));
    }
    for (GpuEvent& event : events_.gpu) {
      const auto call = calls.find(event.correlation);
      const auto named = operators.find(event.op_id);
      const Op* around = nullptr;  // what has the scope and the step
      const Op* made_by = nullptr;
      if (event.correlation != kNoNumber && call != calls.end()) {
        around = &ops_[call->second];
        if (around->op != 0) made_by = &ops_[around->op - 1];
        event.launch_ns = event.start_ns - around->start_ns;
      } else if (event.kind != GpuKind::kAnnotation && event.op_id != kNoNumber && named != operators.end()) {
        around = made_by = &ops_[named->second];
      }
      event.op_id = made_by == nullptr ? kNoNumber : made_by->id;
      event.op = made_by == nullptr ? 0 : made_by->name;
      event.module = around == nullptr ? 0 : around->module;
      event.scope = around == nullptr ? 0 : around->scope;
      event.step = around == nullptr ? StepAt(event.start_ns) : around->step;
    }
  }

  Events& events_;
  std::vector<Op>& ops_;
  std::unordered_map<std::int64_t, OfThread> threads_;
};

}  // namespace

void Arrange(Events& events) { Timeline(events).Arrange(); }

}  // namespace probing::trace
