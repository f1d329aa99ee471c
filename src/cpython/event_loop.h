// When asyncio's event loop on a thread's stack turned last, read from outside.
//
// One turn of asyncio's own loop is one call of BaseEventLoop._run_once. When it has waited for its sockets,
// it writes the monotonic time to the variable `end_time` and runs the callbacks that are due. So that
// variable says exactly for how long the loop has not turned, without anything in the target having to note
// it. uvloop has no such frame; libuv keeps the time of its last turn in its uv_loop_t, in milliseconds. All
// input is untrusted.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "cpython/attributes.h"
#include "cpython/frame_chain.h"
#include "cpython/snapshot.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: `memory` must outlive it.
class EventLoopReader {
 public:
  EventLoopReader(const process::Memory& memory, const Location& location);

  // `frames` and `raw` are of one stack, innermost first. Nothing when no event loop runs on it.
  std::optional<LoopTurn> Read(process::RemoteAddress interpreter, const std::vector<Frame>& frames,
                               const std::vector<RawFrame>& raw);

 private:
  using Index = std::optional<std::size_t>;

  // The position of a variable among a function's, by its name.
  Index FindVariable(process::RemoteAddress code, std::string_view name);
  process::RemoteAddress ValueOf(const RawFrame& frame, std::string_view name);
  std::optional<double> ReadFloat(process::RemoteAddress object) const;
  std::optional<LoopTurn> ReadUvLoop(process::RemoteAddress interpreter, const std::vector<Frame>& frames,
                                     const std::vector<RawFrame>& raw);
  bool HasUvloop(process::RemoteAddress interpreter);
  struct UvLoop {
    process::RemoteAddress loop;       // null: none was found
    process::RemoteAddress structure;  // its uv_loop_t
    std::uint64_t time_at = 0;         // in that
    std::int64_t looked_ns = 0;
  };
  UvLoop FindUvLoop(process::RemoteAddress object) const;

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout layout_;
  AttributeReader attributes_;
  std::unordered_map<std::uint64_t, std::unordered_map<std::string, Index>> variables_;  // by code object
  std::unordered_map<std::uint64_t, UvLoop> uv_loops_;  // by the address of the outermost frame
  bool has_uvloop_ = false;
  std::int64_t looked_for_uvloop_ns_ = 0;
};

}  // namespace probing::cpython
