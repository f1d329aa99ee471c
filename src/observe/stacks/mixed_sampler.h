// MixedSampler: native frames of the threads of one process, merged with the Python ones, again and
// again.
//
// A thread that rests is read from /proc and its memory alone. One that runs is held meanwhile for
// some tens of microseconds: its registers are nowhere else. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "flame/profile.h"
#include "unwind/mixed_reader.h"

namespace probing::observe {

class MixedSampler {
 public:
  // `symbols` is shared by all samplers that may meet the same libraries.
  static Result<MixedSampler> Attach(pid_t pid, std::shared_ptr<unwind::SymbolStore> symbols);

  struct Reading {
    std::vector<flame::Frame> frames;  // innermost first
    bool merged = false;               // false: in which order the two kinds belong is not known
    bool torn = false;                 // the Python frames could not be read
    std::int64_t held_ns = 0;
  };
  // `interpreter` is null for threads without Python. kNotFound: the thread has ended.
  Result<Reading> Read(pid_t tid, cpython::Interpreter* interpreter);

  // Threads of the process, as of not long ago; `again` looks at once.
  const std::vector<pid_t>& Threads(bool again);

 private:
  MixedSampler(pid_t pid, std::shared_ptr<unwind::SymbolStore> symbols, unwind::Unwinder unwinder)
      : pid_(pid), symbols_(std::move(symbols)), unwinder_(std::move(unwinder)) {}

  const flame::Frame& FrameOf(const std::shared_ptr<const unwind::Function>& function);

  pid_t pid_;
  std::shared_ptr<unwind::SymbolStore> symbols_;  // before the unwinder, which uses it
  unwind::Unwinder unwinder_;
  std::vector<pid_t> threads_;
  struct Known {
    std::shared_ptr<const unwind::Function> function;  // keeps the address its own
    flame::Frame frame;
  };
  std::unordered_map<const unwind::Function*, Known> frames_;
};

}  // namespace probing::observe
