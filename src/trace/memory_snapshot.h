// What the allocator of a GPU has: segments, which it has got from the driver, cut into blocks, with the
// stacks that allocated them, as torch.cuda.memory._snapshot() tells it.
//
// The same reader serves what `probing memory --gpu` takes of a running job and snapshots in files (pickles)
// that somebody else has taken, also those of torch 1.13 to 2.0. Untrusted: what makes no sense is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/data_tree.h"
#include "base/result.h"
#include "trace/events.h"

namespace probing::trace {

enum class BlockState : std::uint8_t {
  kAllocated,
  kPendingFree,  // freed by the program, and another stream may still use it
  kFree,         // kept for the next allocation
  kFailed,       // none: an allocation that ended in an out-of-memory error
};
const char* NameOf(BlockState state);

struct MemoryBlock {
  std::int64_t device = 0;
  std::int64_t stream = kNoNumber;
  std::int64_t segment = kNoNumber;  // its address
  std::int64_t segment_bytes = kNoNumber;
  std::int64_t address = kNoNumber;
  std::int64_t bytes = 0;
  std::int64_t requested = kNoNumber;  // the rest of `bytes` is lost to rounding
  std::int64_t allocated_ns = kNoNumber;
  std::int64_t line = kNoNumber;
  BlockState state = BlockState::kFree;
  Texts::Id segment_type = 0;        // small or large
  Texts::Id function = 0, file = 0;  // innermost frame that is not torch's own
  Texts::Id stack = 0;               // outermost first, as in "main (train.py:8);forward (model.py:3)"
};

struct MemorySnapshot {
  std::vector<MemoryBlock> blocks;
  Texts texts;
  std::uint64_t lost = 0;  // blocks beyond the limit
};

// kFailed when the tree is no snapshot.
Result<MemorySnapshot> ReadMemorySnapshot(const DataTree& tree, std::size_t most_blocks);

}  // namespace probing::trace
