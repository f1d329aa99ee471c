// Profile: what a sampler saw, as tables. Frames and stacks are kept once however often they occur.
//
// A stack is a node of a tree: its innermost frame and the stack that called it. So stacks which
// share their beginning share its memory. A sample that continues the one before it (same thread,
// same stack, no gap) makes that one longer instead of being stored, so sleeping threads cost
// nothing. Memory is bounded: beyond the limits the oldest samples go, and are counted.
//
// Names come from programs nobody trusts. They are made valid UTF-8 when they enter, so that every
// output only has to escape what its own format requires. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace probing::flame {

enum class FrameKind : std::uint8_t {
  kPython,
  kNative,
  kGroup,  // no code: a process or a thread that the frames above it belong to
};

struct Frame {
  FrameKind kind = FrameKind::kPython;
  std::string function;
  std::string file;    // the source file; of native frames the library
  int line = 0;        // being executed; 0 when unknown
  int first_line = 0;  // where the function starts; 0 when unknown

  bool operator==(const Frame&) const = default;
};

using FrameId = std::uint32_t;
using StackId = std::uint32_t;
using ThreadId = std::uint32_t;  // an index, not the kernel's id
inline constexpr StackId kEmptyStack = 0;
using MarkId = std::uint16_t;  // an index in Profile::marks()
inline constexpr MarkId kNoMark = 0;

struct StackNode {
  StackId caller = kEmptyStack;
  FrameId frame = 0;
};

struct Thread {
  pid_t pid = 0;
  pid_t tid = 0;
  std::string name;
  std::string process;                 // the name of the process
  std::optional<std::int64_t> rank{};  // of its job; of a recording of several

  bool operator==(const Thread&) const = default;
};

struct Sample {
  std::int64_t start_ns = 0;  // on the monotonic clock
  std::uint32_t ticks = 0;    // periods it stands for
  ThreadId thread = 0;
  StackId stack = kEmptyStack;
  bool on_cpu = false;
  bool has_gil = false;
  MarkId mark = kNoMark;  // why it was taken
};

// What was not stored, in ticks of one thread.
struct Losses {
  std::uint64_t torn = 0;  // the stack changed faster than it could be read, or did not stand still in time
  std::uint64_t dropped = 0;   // old samples that made room, or new ones for which there was none
  std::uint64_t unmerged = 0;  // native and Python frames did not fit together
  std::uint64_t spared = 0;    // ticks left out so that holds cost the target little, as those that came late
  std::uint64_t missed = 0;    // ticks that came late; the next sample stands for them, too
};

class Profile {
 public:
  struct Limits {
    std::size_t samples = 1 << 20;
    std::size_t table_bytes = 64 << 20;  // frames, stacks and their names, roughly

    // So that the whole profile stays within so many bytes.
    static Limits Within(std::size_t bytes) { return {bytes / 8 * 3 / sizeof(Sample), bytes / 2}; }
  };

  Profile(std::int64_t period_ns, const Limits& limits);

  // The id is good until EndThread(); after that it may be given to another thread.
  ThreadId AddThread(Thread thread);
  void EndThread(ThreadId thread);

  // Samples from now on carry this mark: the event that made somebody take them; "" for none. Beyond
  // 1000 different ones all are the last.
  void Mark(const std::string& text);

  // `frames` innermost first, as they are read; its stack and its mark are ignored.
  void AddSample(Sample sample, const std::vector<Frame>& frames);
  // The same with the frames this thread had last.
  void RepeatSample(Sample sample);

  Losses& losses() { return losses_; }
  const Losses& losses() const { return losses_; }

  std::int64_t period_ns() const { return period_ns_; }
  const std::vector<Frame>& frames() const { return frames_; }
  const std::vector<StackNode>& stacks() const { return stacks_; }  // [kEmptyStack] is no node
  const std::vector<Thread>& threads() const { return threads_; }
  const std::vector<std::string>& marks() const { return marks_; }  // [kNoMark] is ""
  const std::deque<Sample>& samples() const { return samples_; }    // by start
  std::int64_t DurationNs(const Sample& sample) const { return sample.ticks * period_ns_; }

  // The frames of a stack, outermost first.
  std::vector<FrameId> FramesOf(StackId stack) const;

 private:
  struct ThreadUse {
    std::uint64_t last_number = 0;  // of its last sample, counted from the start
    StackId last_stack = kEmptyStack;
    std::size_t stored = 0;  // samples that refer to it
    bool ended = false;
  };

  StackId Intern(const std::vector<Frame>& frames);
  StackId InternNode(const StackNode& node);
  FrameId InternFrame(const Frame& frame);
  void Store(const Sample& sample);
  void DropOldest();
  void MakeRoom();
  // Throws away frames and stacks that nothing refers to any more.
  void Compact();

  std::int64_t period_ns_;
  Limits limits_;
  std::vector<Frame> frames_;
  std::unordered_multimap<std::size_t, FrameId> frame_ids_;  // by hash
  std::vector<StackNode> stacks_{StackNode{}};
  std::unordered_map<std::uint64_t, StackId> stack_ids_;  // by caller and frame
  std::size_t table_bytes_ = 0;
  std::vector<Thread> threads_;
  std::vector<ThreadUse> uses_;  // by ThreadId
  std::vector<ThreadId> free_threads_;
  std::vector<std::string> marks_{""};
  MarkId mark_ = kNoMark;  // of samples that come
  std::deque<Sample> samples_;
  std::uint64_t first_number_ = 1;  // of samples_.front()
  Losses losses_;
};

}  // namespace probing::flame
