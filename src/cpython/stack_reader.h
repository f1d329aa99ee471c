// Reads one thread's stack while that thread runs.
//
// The chain of frames is read several times. Where all readings agree on every pointer and on every
// position but the innermost, the chain was like that at the moments between them; otherwise it
// is read again, a bounded number of times. A stack that never settles is reported as torn,
// never as a guess. A thread that calls and returns all the time settles only while it waits for a
// CPU: StackOptions::cpu makes such moments.
#pragma once

#include <unordered_map>
#include <vector>

#include "cpython/code.h"
#include "cpython/frame_chain.h"
#include "cpython/locals.h"
#include "cpython/snapshot.h"
#include "process/shared_cpu.h"

namespace probing::cpython {

struct Stack {
  std::vector<Frame> frames;
  std::vector<RawFrame> raw;  // of each frame, in the same order
  std::vector<EvalLoop> loops;
  bool torn = false;
  bool truncated = false;
  std::size_t left_out = 0;     // frames, ...
  std::size_t left_out_at = 0;  // ...before this one
  // It has no frame, or its outermost one is a generator. Both happen, but a moment between two calls looks
  // like that too.
  bool doubtful = false;
};

struct StackOptions {
  std::size_t max_depth = 4096;
  int attempts = 20;
  bool must_stand_still = false;  // the innermost position has to agree as well
  // Where to read from, if anywhere: what the thread did meanwhile is no stack then.
  process::SharedCpu* cpu = nullptr;
  // Return a doubtful stack as it is, flagged, instead of reading again until it is confirmed.
  bool keep_doubtful = false;
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class StackReader {
 public:
  StackReader(const process::Memory& memory, const Location& location);

  // `thread` is the address of a PyThreadState.
  Stack Read(process::RemoteAddress thread, const StackOptions& options);

  // One attempt at each of many threads, with a few system calls for all. Threads that moved meanwhile, and
  // doubtful stacks, are torn: Read() them. Of the options, `attempts`, `cpu` and `keep_doubtful` do not
  // count.
  std::vector<Stack> ReadMany(const std::vector<process::RemoteAddress>& threads,
                              const StackOptions& options);

  // Adds the variables of the frames of a stack that was just read. Those of frames that went on
  // meanwhile are left out. Call BeginLocals() before, once for all threads.
  void BeginLocals(int depth) { locals_.Begin(depth); }
  void AddLocals(process::RemoteAddress thread, std::size_t max_depth, int attempts, Stack& stack);

  // Frames that wait, wherever they are: those of coroutines. Checks nothing but their code objects.
  Result<std::vector<RawFrame>> ReadWaiting(const std::vector<process::RemoteAddress>& addresses) const {
    return chains_.ReadEach(addresses);
  }
  Result<std::vector<Frame>> DescribeWaiting(const std::vector<RawFrame>& frames);

  // Forgets what is remembered about threads that are not in `threads`.
  void Keep(const std::vector<process::RemoteAddress>& threads);

 private:
  // Sweeps that must agree with the first. A loop comes back to where it was: one may agree by chance.
  static constexpr int kSecondSweeps = 2;

  static bool IsSameChain(const std::vector<RawFrame>& a, const std::vector<RawFrame>& b,
                          std::size_t first_still);
  static bool IsDoubtful(const std::vector<RawFrame>& chain, const ChainPlaces& places);
  Result<Stack> TryToRead(process::RemoteAddress thread, const StackOptions& options);
  // `gap`: ChainPlaces::gap.
  Result<void> Describe(const std::vector<RawFrame>& chain, std::size_t gap, Stack& stack);
  // REQUIRES: the code objects of all frames are in codes_.
  Result<void> DescribeLoaded(const std::vector<RawFrame>& chain, std::size_t gap, Stack& stack) const;
  Result<std::int64_t> PositionInBytecode(const RawFrame& frame, const CodeInfo& code) const;

  const process::Memory* memory_;
  Offsets offsets_;
  FrameChainReader chains_;
  CodeCache codes_;
  LocalsReader locals_;
  // Where each thread's frames were last time. Mostly they still are.
  std::unordered_map<std::uint64_t, ChainPlaces> places_;
};

}  // namespace probing::cpython
