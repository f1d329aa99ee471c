// View: which samples of a profile are shown, and what a frame is called.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "flame/profile.h"

namespace probing::flame {

enum class Shown : std::uint8_t {
  kActive,  // on a CPU, or holding the GIL (then everybody else waits for it)
  kAll,     // idle ones, too
  kGil,     // holding the GIL
};

struct View {
  Shown shown = Shown::kActive;
  bool by_rank = false;            // a group for each rank of a job
  bool by_thread = false;          // a group for each thread
  bool by_process = false;         // a group for each process
  bool by_line = false;            // the lines of a function are told apart
  std::set<std::int64_t> ranks;    // only these; empty: all there are
  std::set<std::int64_t> against;  // whose shares these are compared with, in pictures; empty: none
  std::string title;
  // The text of a source file, "" when it cannot be read; for formats that show it. May be null.
  std::function<std::string(const std::string& file)> source_of;
};

bool IsShown(const View& view, const Profile& profile, const Sample& sample);

// "rank 3 train.py", or "train.py" where there are no ranks.
std::string ProcessName(const Thread& thread);

// "torch/nn/modules/module.py": without the folder that packages are installed in. Of other files
// only the name.
std::string ShortFile(const std::string& file);

// "train (train.py:12)": the line where the function starts, or the current one (by_line).
std::string Label(const View& view, const Frame& frame);

// Groups a thread's frames belong to in this view, outermost first.
std::vector<Frame> GroupsOf(const View& view, const Thread& thread);

// How many ticks each stack of each thread was seen, in no particular order.
struct FoldedStack {
  ThreadId thread = 0;
  StackId stack = kEmptyStack;
  std::uint64_t ticks = 0;
  std::uint64_t idle_ticks = 0;  // of these: neither on a CPU nor holding the GIL
};
std::vector<FoldedStack> Fold(const Profile& profile, const View& view);

}  // namespace probing::flame
