// What a coroutine that stands still awaits: the coroutines, generators and async generators below it.
//
// What is awaited lies on top of the value stack of the frame that awaits it. Whether a generator awaits
// something, or only yields, is said by its state (since 3.13) or by the instruction that it goes on with.
// `async for` and `anext()` put objects in between which point to the generator. All input is untrusted.
#pragma once

#include <vector>

#include "cpython/attributes.h"
#include "cpython/stack_reader.h"

namespace probing::cpython {

struct AwaitChain {
  std::vector<RawFrame> frames;  // outermost first; of one that runs its own alone, if that could be read
  bool is_running = false;
};

// Not thread-safe. Lifetime: all that it is given must outlive it.
class AwaitChainReader {
 public:
  AwaitChainReader(const process::Memory& memory, const Location& location, const StackReader& stacks);

  // Fails when something moved meanwhile. The caller compares two readings.
  Result<AwaitChain> Read(process::RemoteAddress coroutine) const;

 private:
  enum class Kind : std::uint8_t { kCoroutine, kGenerator, kAsyncGenerator, kPointer, kOther };
  enum class State : std::uint8_t { kCreated, kSuspended, kExecuting, kDone };
  struct Suspension {
    State state = State::kDone;
    bool awaits = false;
    RawFrame frame;
  };

  Result<Kind> KindOf(process::RemoteAddress object) const;
  Result<Suspension> ReadSuspension(process::RemoteAddress generator, Kind kind) const;
  Result<bool> IsAwaiting(const RawFrame& frame) const;
  Result<process::RemoteAddress> ReadTopOfStack(process::RemoteAddress frame) const;

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  const StackReader* stacks_;
  int minor_;
};

}  // namespace probing::cpython
