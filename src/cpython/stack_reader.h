// Reads one thread's stack while that thread runs.
//
// The chain of frames is read twice. Where both readings agree on every pointer and on every
// position but the innermost, the chain was like that at the moment between them; otherwise it
// is read again, a bounded number of times. A stack that never settles is reported as torn,
// never as a guess.
#pragma once

#include <unordered_map>
#include <vector>

#include "cpython/code.h"
#include "cpython/snapshot.h"

namespace probing::cpython {

struct Stack {
  std::vector<Frame> frames;
  bool torn = false;
  bool truncated = false;
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class StackReader {
 public:
  StackReader(const process::Memory& memory, const Location& location);

  // `thread` is the address of a PyThreadState.
  Stack Read(process::RemoteAddress thread, std::size_t max_depth, int attempts);

  // Forgets what is remembered about threads that are not in `threads`.
  void Keep(const std::vector<process::RemoteAddress>& threads);

 private:
  struct RawFrame {
    process::RemoteAddress address;
    process::RemoteAddress previous;
    process::RemoteAddress code;
    std::uint64_t instruction = 0;
    std::int32_t bytecode_index = 0;
    std::uint8_t owner = 0;
  };
  struct Chain {
    std::vector<RawFrame> frames;
    bool truncated = false;
  };

  Result<Stack> TryToRead(process::RemoteAddress thread, std::size_t max_depth);
  Result<process::RemoteAddress> InnermostFrame(process::RemoteAddress thread) const;
  Result<Chain> ReadChain(process::RemoteAddress innermost, std::size_t max_depth,
                          const std::vector<process::RemoteAddress>& likely) const;
  Result<std::vector<RawFrame>> ReadFrames(const std::vector<process::RemoteAddress>& addresses) const;
  Result<void> CheckUnchanged(process::RemoteAddress thread, const Chain& chain) const;
  Result<std::vector<Frame>> Describe(const Chain& chain);
  Result<std::int64_t> PositionInBytecode(const RawFrame& frame, const CodeInfo& code) const;
  bool IsInternal(const RawFrame& frame) const;

  const process::Memory* memory_;
  Offsets offsets_;
  std::size_t frame_bytes_;
  CodeCache codes_;
  // Where each thread's frames were last time. They mostly still are, so one system call
  // fetches them all.
  std::unordered_map<std::uint64_t, std::vector<process::RemoteAddress>> last_addresses_;
};

}  // namespace probing::cpython
