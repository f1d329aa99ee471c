// Tree: the stacks of a profile laid over each other; what a flame graph draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flame/view.h"

namespace probing::flame {

// One function (or group) of the tree, however many places it occurs in.
struct Entry {
  std::string label;
  std::string file;    // in full
  std::string colour;  // ColourName()
};

// A rectangle of the picture. Widths are ticks; callers come before what they call.
struct Box {
  std::size_t entry = 0;
  std::size_t depth = 0;    // 0 is the root, which stands for everything
  std::uint64_t start = 0;  // ticks to the left of it
  std::uint64_t ticks = 0;  // its own and those of everything it calls
  bool idle = false;        // the thread waited in all of them
  std::string ranks;        // that were in it, of several: "0-2, 4"
  double change = 0;        // its share minus that of the ranks it is compared with (View::against)
};

struct Tree {
  std::vector<Entry> entries;
  std::vector<Box> boxes;  // neighbours are in the order of their labels
  std::uint64_t total_ticks = 0;
  std::size_t depth = 0;  // of the deepest box
  bool is_compared = false;
};

Tree BuildTree(const Profile& profile, const View& view);

}  // namespace probing::flame
