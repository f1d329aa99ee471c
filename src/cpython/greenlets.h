// Suspended greenlets and their Python stacks, read from outside: those of the C extension greenlet, which
// gevent and eventlet are made of.
//
// There is no list of them, so all objects are looked at (tracked_objects.h) in processes that have imported
// greenlet. Where the extension keeps its fields differs from release to release; they are known by what they
// point to: an innermost frame, and a range of the C stack with a copy on the heap. A greenlet is read twice,
// and left out when it was switched to meanwhile. All input is untrusted.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cpython/attributes.h"
#include "cpython/snapshot.h"
#include "cpython/stack_reader.h"
#include "cpython/states.h"
#include "process/maps.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: all that it is given must outlive it.
class GreenletReader {
 public:
  GreenletReader(const process::Memory& memory, const Location& location, StackReader& stacks);

  // Whether this interpreter has imported greenlet.
  bool MayHaveSome(const InterpreterState& interpreter) const { return bool{FindClass(interpreter)}; }

  struct FoundGreenlet {
    Greenlet greenlet;       // without `tid`
    process::Mapping stack;  // the thread's stack that it runs on
  };
  struct Found {
    std::vector<FoundGreenlet> greenlets;
    std::size_t count = 0;  // suspended ones; of more than a thousand only the first are read
    std::string unknown;    // why some may be missing
  };
  // All objects are looked at, for `limit_ms` at most.
  Found Read(const InterpreterState& interpreter, const process::Maps& maps, std::int64_t limit_ms);

 private:
  // Its part of the C stack, `saved_bytes` of which are at `copy`, and the PyFrameObject it will go on with.
  struct State {
    std::uint64_t start = 0, stop = 0, copy = 0, saved_bytes = 0;
    process::RemoteAddress frame;
    bool operator==(const State&) const = default;
  };

  process::RemoteAddress FindClass(const InterpreterState& interpreter) const;
  bool IsMadeOf(process::RemoteAddress type, process::RemoteAddress base) const;
  // Nothing: it has not begun, runs, or is done.
  Result<std::optional<State>> ReadState(process::RemoteAddress greenlet);
  // What four words that follow each other say, if they can be meant so.
  std::optional<State> ToState(std::span<const std::uint64_t, 4> words, process::RemoteAddress fields) const;
  // Whether the stack of a thread is there. `fields` are on the heap.
  bool IsStack(const process::Mapping& mapping, std::uint64_t address, process::RemoteAddress fields) const;
  bool IsFrame(std::uint64_t word);
  Result<std::vector<RawFrame>> ReadFrames(const State& state) const;
  // kNotFound: it is not suspended.
  Result<FoundGreenlet> ReadOne(process::RemoteAddress greenlet);

  const process::Memory* memory_;
  const Location& location_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  StackReader* stacks_;
  // Of what is being read.
  const process::Maps* maps_ = nullptr;
  const InterpreterState* interpreter_ = nullptr;
  bool stacks_have_names_ = false;     // the main thread's is "[stack]"; not so in a core file
  bool is_inline_ = false;             // before greenlet 2: the fields are in the object
  process::RemoteAddress frame_type_;  // once it is known
};

}  // namespace probing::cpython
