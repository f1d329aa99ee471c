// LastWords: what a target that has ended says about its end in the rows it left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/scoped_fd.h"

namespace probing::observe {

struct LastWords {
  // The newest step of any row that has one.
  std::optional<std::int64_t> step;
  // "ValueError: no": what the main thread did not catch last; empty when it caught everything.
  std::string exception;
};

// `rings` are memory files with its tables; one that makes no sense says nothing.
LastWords ReadLastWords(std::span<const std::shared_ptr<const ScopedFd>> rings);

}  // namespace probing::observe
