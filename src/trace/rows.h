// The events of a trace as rows of python.torch_ops and gpu.kernels; the blocks of a snapshot as those of
// gpu.memory_blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "ring/arena.h"
#include "trace/events.h"
#include "trace/memory_snapshot.h"

namespace probing::trace {

// Memory files with the rows, as a probe would have them, and what keeps them alive.
struct Rings {
  std::vector<std::unique_ptr<ring::Arena>> arenas;
  std::vector<std::shared_ptr<const ScopedFd>> fds;
  std::uint64_t lost = 0;  // rows for which there was no memory
};

// REQUIRES: Arrange() has been called. `profile` is the number of the profile in the rows.
Result<Rings> WriteRows(const Events& events, std::int64_t profile);

// `taken_ns` is when the snapshot was taken, and `number` its number in the rows.
Result<Rings> WriteRows(const MemorySnapshot& snapshot, std::int64_t taken_ns, std::int64_t number);

}  // namespace probing::trace
