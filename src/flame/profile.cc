#include "flame/profile.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "flame/escape.h"

namespace probing::flame {
namespace {

constexpr std::size_t kNodeBytes = sizeof(StackNode) + 48;  // with its entry in the hash table
constexpr std::size_t kFrameBytes = sizeof(Frame) + 48;
constexpr std::size_t kMaxMarks = 1000;

std::size_t Hash(const Frame& frame) {
  const std::hash<std::string> hash;
  std::size_t value = hash(frame.function) * 31 + hash(frame.file);
  value = value * 31 + static_cast<std::size_t>(frame.line);
  return value * 31 + static_cast<std::size_t>(frame.first_line) * 4 + static_cast<std::size_t>(frame.kind);
}

std::size_t SizeOf(const Frame& frame) { return kFrameBytes + frame.function.size() + frame.file.size(); }

}  // namespace

Profile::Profile(std::int64_t period_ns, const Limits& limits) : period_ns_(period_ns), limits_(limits) {}

ThreadId Profile::AddThread(Thread thread) {
  thread.name = ValidUtf8(std::move(thread.name));
  thread.process = ValidUtf8(std::move(thread.process));
  if (free_threads_.empty()) {
    threads_.push_back(std::move(thread));
    uses_.emplace_back();
    return static_cast<ThreadId>(threads_.size() - 1);
  }
  const ThreadId id = free_threads_.back();
  free_threads_.pop_back();
  threads_[id] = std::move(thread);
  uses_[id] = {};
  return id;
}

void Profile::EndThread(ThreadId thread) {
  uses_[thread].ended = true;
  if (uses_[thread].stored == 0) free_threads_.push_back(thread);
}

void Profile::Mark(const std::string& text) {
  const std::string valid = ValidUtf8(text);
  auto known = std::find(marks_.begin(), marks_.end(), valid);
  if (known == marks_.end() && marks_.size() <= kMaxMarks) known = marks_.insert(known, valid);
  if (known == marks_.end()) --known;
  mark_ = static_cast<MarkId>(known - marks_.begin());
}

void Profile::AddSample(Sample sample, const std::vector<Frame>& frames) {
  if (table_bytes_ >= limits_.table_bytes) MakeRoom();
  sample.stack = Intern(frames);
  sample.mark = mark_;
  Store(sample);
}

void Profile::RepeatSample(Sample sample) {
  sample.stack = uses_[sample.thread].last_stack;
  sample.mark = mark_;
  Store(sample);
}

void Profile::Store(const Sample& sample) {
  ThreadUse& use = uses_[sample.thread];
  use.last_stack = sample.stack;
  if (use.last_number >= first_number_) {
    Sample& last = samples_[use.last_number - first_number_];
    const bool same = last.stack == sample.stack && last.on_cpu == sample.on_cpu &&
                      last.has_gil == sample.has_gil && last.mark == sample.mark;
    if (same && sample.start_ns - last.start_ns - DurationNs(last) < period_ns_) {
      last.ticks += sample.ticks;
      return;
    }
  }
  while (!samples_.empty() && samples_.size() >= limits_.samples) DropOldest();
  samples_.push_back(sample);
  use.last_number = first_number_ + samples_.size() - 1;
  ++use.stored;
}

void Profile::DropOldest() {
  const Sample& oldest = samples_.front();
  losses_.dropped += oldest.ticks;
  ThreadUse& use = uses_[oldest.thread];
  --use.stored;
  if (use.ended && use.stored == 0) free_threads_.push_back(oldest.thread);
  samples_.pop_front();
  ++first_number_;
}

StackId Profile::Intern(const std::vector<Frame>& frames) {
  StackId stack = kEmptyStack;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    stack = InternNode({stack, InternFrame(*frame)});
  }
  return stack;
}

StackId Profile::InternNode(const StackNode& node) {
  const std::uint64_t key = std::uint64_t{node.caller} << 32U | node.frame;
  const auto [found, is_new] = stack_ids_.try_emplace(key, static_cast<StackId>(stacks_.size()));
  if (is_new) {
    stacks_.push_back(node);
    table_bytes_ += kNodeBytes;
  }
  return found->second;
}

FrameId Profile::InternFrame(const Frame& frame) {
  if (!IsValidUtf8(frame.function) || !IsValidUtf8(frame.file)) {
    Frame valid = frame;
    valid.function = ValidUtf8(std::move(valid.function));
    valid.file = ValidUtf8(std::move(valid.file));
    return InternFrame(valid);
  }
  const std::size_t hash = Hash(frame);
  const auto [begin, end] = frame_ids_.equal_range(hash);
  const auto known =
      std::find_if(begin, end, [&](const auto& entry) { return frames_[entry.second] == frame; });
  if (known != end) return known->second;
  frames_.push_back(frame);
  table_bytes_ += SizeOf(frame);
  const auto id = static_cast<FrameId>(frames_.size() - 1);
  frame_ids_.emplace(hash, id);
  return id;
}

void Profile::MakeRoom() {
  Compact();
  while (table_bytes_ > limits_.table_bytes / 2 && !samples_.empty()) {
    for (std::size_t left = samples_.size() / 2; samples_.size() > left;) DropOldest();
    Compact();
  }
}

void Profile::Compact() {
  const std::vector<Frame> old_frames = std::move(frames_);
  const std::vector<StackNode> old_stacks = std::move(stacks_);
  frames_.clear();
  frame_ids_.clear();
  stacks_.assign(1, StackNode{});
  stack_ids_.clear();
  table_bytes_ = 0;

  std::vector<std::optional<StackId>> moved(old_stacks.size());
  moved[kEmptyStack] = kEmptyStack;
  const auto move = [&](StackId stack) {
    std::vector<StackId> path;
    for (; !moved[stack]; stack = old_stacks[stack].caller) path.push_back(stack);
    StackId now = *moved[stack];
    for (auto node = path.rbegin(); node != path.rend(); ++node) {
      now = InternNode({now, InternFrame(old_frames[old_stacks[*node].frame])});
      moved[*node] = now;
    }
    return now;
  };
  for (Sample& sample : samples_) sample.stack = move(sample.stack);
  for (ThreadUse& use : uses_) use.last_stack = use.ended ? kEmptyStack : move(use.last_stack);
}

std::vector<FrameId> Profile::FramesOf(StackId stack) const {
  std::vector<FrameId> frames;
  for (; stack != kEmptyStack; stack = stacks_[stack].caller) frames.push_back(stacks_[stack].frame);
  std::reverse(frames.begin(), frames.end());
  return frames;
}

}  // namespace probing::flame
