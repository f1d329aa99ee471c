// Rings that this daemon has written, as the table of targets keeps them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/scoped_fd.h"
#include "trace/rows.h"

namespace probing::daemon {

// The writing side lives as long as any of its descriptors.
inline std::vector<std::shared_ptr<const ScopedFd>> SharedRings(trace::Rings written) {
  const auto rings = std::make_shared<trace::Rings>(std::move(written));
  std::vector<std::shared_ptr<const ScopedFd>> fds;
  for (const auto& fd : rings->fds) fds.emplace_back(rings, fd.get());
  return fds;
}

}  // namespace probing::daemon
