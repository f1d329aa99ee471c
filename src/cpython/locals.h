// The variables of a frame: arguments, locals, and those of functions around it.
//
// A module's variables are its globals, and a class body's are in a dict of its own: such frames
// have none here. Names that are not bound (yet, or any more) are left out.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpython/frame_chain.h"
#include "cpython/object_reader.h"
#include "cpython/snapshot.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: `memory` must outlive it.
class LocalsReader {
 public:
  LocalsReader(const process::Memory& memory, const Location& location);

  // What was learned is forgotten and the limits start anew. Call it once for each snapshot.
  // `depth`: levels of containers, 0 to kMaxValueDepth.
  void Begin(int depth);

  // At most 256 variables. Beyond the limits values are "…", and then names are left out too.
  std::vector<Local> Read(const RawFrame& frame);

 private:
  struct Name {
    std::string name;
    bool is_cell = false;
    bool is_argument = false;
  };

  Result<std::vector<Name>> ReadNames(process::RemoteAddress code) const;
  // How many of the first names are those of arguments.
  Result<std::size_t> CountArguments(process::RemoteAddress code) const;
  Result<void> AddNames(process::RemoteAddress tuple, bool are_cells, std::vector<Name>& names) const;
  Result<std::vector<Local>> TryToRead(const RawFrame& frame);

  std::unique_ptr<LimitedMemory> memory_;  // stays where it is when this moves
  Offsets offsets_;
  ObjectLayout layout_;
  ObjectReader objects_;
  std::size_t reads_left_ = 0;                                  // of the snapshot
  std::unordered_map<std::uint64_t, std::vector<Name>> names_;  // by the address of the code object
};

}  // namespace probing::cpython
