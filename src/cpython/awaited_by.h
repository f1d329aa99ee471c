// Which tasks wait for a task: directly, or through gather(), wait(), wait_for(), shield() or a TaskGroup.
//
// A task says which future it waits for. What is between that future and another task is found the other way
// round: the task's callbacks hold the futures that will be done with it, in their closures, their arguments
// or as the TaskGroup that they are methods of. All input is untrusted; the search is bounded.
#pragma once

#include <unordered_map>
#include <vector>

#include "cpython/attributes.h"
#include "cpython/future_object.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: all that it is given must outlive it.
class AwaitedByReader {
 public:
  AwaitedByReader(const process::Memory& memory, const Location& location, FutureReader& futures);

  // Tasks by the address of the future that they wait for.
  using WaitingFor = std::unordered_multimap<std::uint64_t, std::uint64_t>;

  // The addresses of tasks that wait for `task`, each once, in the order of their addresses. What changes
  // meanwhile is left out.
  std::vector<std::uint64_t> Find(process::RemoteAddress task, const WaitingFor& waiting);

 private:
  // What a callback will wake: futures that it makes done, and tasks that it is for.
  struct Woken {
    std::vector<process::RemoteAddress> futures;
    std::vector<process::RemoteAddress> tasks;
  };

  Result<void> AddCallback(process::RemoteAddress callback, int depth, Woken& woken);
  Result<void> AddClosure(process::RemoteAddress function, Woken& woken);
  Result<void> AddIfFuture(process::RemoteAddress object, Woken& woken);

  const process::Memory* memory_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  FutureReader* futures_;
  std::uint32_t closure_;  // of a function, from the end of the object's head
};

}  // namespace probing::cpython
