// Who waits for whom: a graph of threads, and the way from one of them to the cause.
//
// The graph is plain data, so that tests build it by hand. Readers of /proc and of interpreters fill it
// (investigation.h); Follow() decides which of several ways explains the wait.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace probing::why {

// How a way ends. In the order in which they explain a wait: of several ways the lowest is taken.
enum class End : std::uint8_t {
  kDied,      // a process that has ended
  kStopped,   // by SIGSTOP, or by a debugger
  kRuns,      // it could go on
  kKernel,    // in a system call that cannot be interrupted: disk, network file system, driver
  kSleeps,    // until a time that it chose
  kOutside,   // another host, a terminal, a file that nobody here writes
  kUnknown,   // it waits, and nothing says for what
  kIdle,      // it waits for work: a server without requests, a pool without tasks
  kDeadlock,  // the way comes back to where it has been
  kWaits,     // not an end: Node::waits
};
const char* EndName(End end);  // "died", "runs"… as in JSON

struct Wait {
  std::size_t on = 0;   // index in Graph::nodes
  std::string reason;   // "pipe", "TCP 127.0.0.1:40311", "RLock at 0x7f…"
  bool certain = true;  // false: the interpreter does not say, but this one has to do with it
};

struct Node {
  pid_t pid = 0;        // 0: outside of this host
  pid_t tid = 0;        // 0: a process as a whole; `waits` are those of its threads that may matter
  std::string process;  // for people: "train.py", "DataLoader worker 0"
  std::optional<std::int64_t> rank;
  std::string thread;    // "MainThread"
  std::string function;  // of the innermost frame that is not a library's; "" without Python
  std::string file;
  int line = 0;
  std::string call;  // the system call in which it waits; "" when it runs
  End end = End::kWaits;
  std::string note;  // about the end: "a terminal (/dev/pts/3)"
  std::vector<Wait> waits;
  // One of `waits` is enough to go on (a pipe with several writers) or all are needed (a collective).
  bool needs_all = false;
};

struct Graph {
  std::vector<Node> nodes;
};

struct Step {
  std::size_t node = 0;
  std::string reason;  // why the step before waits for this one; "" in the first
  bool certain = true;
};

struct Chain {
  std::vector<Step> steps;  // never empty
  End end = End::kUnknown;
  std::size_t back_to = 0;  // of kDeadlock: the index in `steps` at which the circle begins

  std::size_t root() const { return steps.back().node; }
};

// The way from `start` to the cause. REQUIRES: `start` and all Wait::on are in the graph.
Chain Follow(const Graph& graph, std::size_t start);

// One cause, and all that wait for it.
struct Cause {
  Chain longest;
  std::vector<std::size_t> waiting;  // nodes, by pid; those of `longest` too
};
// Of many starts. Causes for which most wait come first; those for which nobody but themselves waits
// last.
std::vector<Cause> GroupByCause(const Graph& graph, const std::vector<std::size_t>& starts);

}  // namespace probing::why
