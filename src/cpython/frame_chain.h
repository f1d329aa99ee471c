// The chain of frames of a running thread, as raw pointers.
//
// Walk() follows the pointers, one read after the other, and finds out where the frames are.
// Sweep() reads a chain whose places are known in one system call, innermost pointer first and
// last, and checks that it hangs together. Two sweeps that agree are as good as a stopped thread.
#pragma once

#include <vector>

#include "cpython/block.h"
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
  std::size_t max_depth = 0;  // how many were asked for
  bool truncated = false;     // the outermost frame is not among them
  std::size_t gap = 0;        // if not 0: between frames[gap - 1] and frames[gap] some are left out, ...
  std::size_t left_out = 0;   // ...so many of the program's
};

// Copies of frames. Those that lie close together are fetched as one piece.
class FrameBytes {
 public:
  static Result<FrameBytes> Plan(const std::vector<process::RemoteAddress>& addresses,
                                 std::size_t frame_bytes);
  // What has to be read into it. Valid until it is moved or destroyed.
  void AddPieces(std::vector<process::Memory::Piece>& pieces);
  // Of the frame at addresses[index].
  std::span<const std::byte> Of(std::size_t index) const {
    return std::span(bytes_).subspan(places_[index], frame_bytes_);
  }

 private:
  struct Range {
    std::uint64_t start, end;
    std::size_t at;  // in bytes_
  };
  std::size_t frame_bytes_ = 0;
  std::vector<Range> ranges_;
  std::vector<std::size_t> places_;  // of each frame in bytes_
  std::vector<std::byte> bytes_;
};

// Lifetime: `memory` must outlive it.
class FrameChainReader {
 public:
  FrameChainReader(const process::Memory& memory, const Offsets& offsets);

  // `thread` is the address of a PyThreadState. `likely` is where the frames were last time:
  // those that still are there need no read of their own. Of a deeper stack the innermost and the outermost
  // frames are kept.
  Result<ChainPlaces> Walk(process::RemoteAddress thread, std::size_t max_depth,
                           const ChainPlaces& likely) const;

  // Frames that are nobody's stack (of coroutines that wait), in the order of their addresses given.
  Result<std::vector<RawFrame>> ReadEach(const std::vector<process::RemoteAddress>& addresses) const;

  // Innermost first. Fails when the thread's frames are elsewhere, or cannot be all of a stack.
  Result<std::vector<RawFrame>> Sweep(process::RemoteAddress thread, const ChainPlaces& places) const;

  // The same of many threads with a few system calls in all. WalkMany() only guesses: where something cannot
  // be read, what was found until then is the answer, and Sweep() will tell.
  std::vector<ChainPlaces> WalkMany(const std::vector<process::RemoteAddress>& threads,
                                    std::size_t max_depth) const;
  // REQUIRES: as many places as threads.
  std::vector<Result<std::vector<RawFrame>>> SweepMany(const std::vector<process::RemoteAddress>& threads,
                                                       const std::vector<ChainPlaces>& places) const;

 private:
  struct Head {
    process::RemoteAddress record, innermost;
    bool operator==(const Head&) const = default;
  };

  struct Step {
    process::RemoteAddress address, previous;
    bool is_internal = false;
  };
  Result<Step> ReadStep(const process::Memory& memory, process::RemoteAddress frame) const;
  // One sweep: what is to be read where, then what was there. Lifetime: `places` must outlive it.
  struct PreparedSweep {
    process::RemoteAddress thread;
    const ChainPlaces* places = nullptr;
    Head expected, before, after;
    FrameBytes frames;
  };
  Result<PreparedSweep> Prepare(process::RemoteAddress thread, const ChainPlaces& places) const;
  // The pieces point into `sweep`, which must stay where it is until they are read.
  void AddPieces(PreparedSweep& sweep, std::vector<process::Memory::Piece>& pieces) const;
  Result<std::vector<RawFrame>> Finish(const PreparedSweep& sweep) const;
  std::vector<RawFrame> DecodeAll(const std::vector<process::RemoteAddress>& addresses,
                                  const FrameBytes& bytes) const;

  Result<Head> ReadHead(process::RemoteAddress thread) const;
  // Goes from `frame` from caller to caller as long as they are in `window`, which has memory from `start` on
  // up to that frame. Returns where the chain goes on.
  process::RemoteAddress Follow(const BlockView& window, process::RemoteAddress start,
                                process::RemoteAddress frame, std::size_t max_depth,
                                ChainPlaces& places) const;
  Result<void> CheckWhole(const std::vector<RawFrame>& frames, bool truncated) const;

  const process::Memory* memory_;
  Offsets offsets_;
  std::size_t frame_bytes_;
};

}  // namespace probing::cpython
