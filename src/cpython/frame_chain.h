// The chain of frames of a running thread, as raw pointers.
//
// Walk() follows the pointers, one read after the other, and finds out where the frames are.
// Sweep() reads a chain whose places are known in one system call, innermost pointer first and
// last, and checks that it hangs together. Two sweeps that agree are as good as a stopped thread.
#pragma once

#include <vector>

#include "cpython/locate.h"

namespace probing::cpython {

struct RawFrame {
  process::RemoteAddress address;
  process::RemoteAddress previous;
  process::RemoteAddress code;
  std::uint64_t instruction = 0;
  std::int32_t bytecode_index = 0;
  std::uint8_t owner = 0;
  bool is_generator = false;
  bool is_executing = true;
  bool is_entry = false;     // up to 3.11: called from C, so it began a run of the interpreter's loop
  bool is_internal = false;  // of the interpreter's C code, not of the program
};

// Where the frames of a thread are.
struct ChainPlaces {
  process::RemoteAddress record;  // 3.11 and 3.12: what points to the innermost frame
  std::vector<process::RemoteAddress> frames;
  bool truncated = false;
};

// Lifetime: `memory` must outlive it.
class FrameChainReader {
 public:
  FrameChainReader(const process::Memory& memory, const Offsets& offsets);

  // `thread` is the address of a PyThreadState. `likely` is where the frames were last time:
  // those that still are there need no read of their own.
  Result<ChainPlaces> Walk(process::RemoteAddress thread, std::size_t max_depth,
                           const ChainPlaces& likely) const;

  // Frames that are nobody's stack (of coroutines that wait), in the order of their addresses given.
  Result<std::vector<RawFrame>> ReadEach(const std::vector<process::RemoteAddress>& addresses) const {
    return ReadFrames(addresses, {}, {});
  }

  // Innermost first. Fails when the thread's frames are elsewhere, or cannot be all of a stack.
  Result<std::vector<RawFrame>> Sweep(process::RemoteAddress thread, const ChainPlaces& places) const;

 private:
  struct Head {
    process::RemoteAddress record, innermost;
    bool operator==(const Head&) const = default;
  };

  Result<Head> ReadHead(process::RemoteAddress thread) const;
  Result<std::vector<RawFrame>> ReadFrames(const std::vector<process::RemoteAddress>& addresses,
                                           std::vector<process::Memory::Piece> before,
                                           const std::vector<process::Memory::Piece>& after) const;
  Result<void> CheckWhole(const std::vector<RawFrame>& frames, bool truncated) const;

  const process::Memory* memory_;
  Offsets offsets_;
  std::size_t frame_bytes_;
};

}  // namespace probing::cpython
