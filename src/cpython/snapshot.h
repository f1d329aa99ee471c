// What a reading of an interpreter gives: threads and their frames, as plain values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpython/version.h"

namespace probing::cpython {

// Levels of containers in a variable's text. Deeper ones are "[…]".
inline constexpr int kDefaultValueDepth = 6;
inline constexpr int kMaxValueDepth = 32;

struct Local {
  std::string name;
  std::string text;  // what repr() would say, cut; "<unreadable>" when it changed or makes no sense
  std::string type;  // "int", "numpy.ndarray"; empty when unknown
  bool is_argument = false;
};

struct Frame {
  std::string function;  // qualified (Class.method) since Python 3.11
  std::string file;      // as the code object has it: may be relative, or "<string>"
  int line = 0;          // the line being executed; 0 when the instruction belongs to none
  int first_line = 0;    // where the function starts
  // Arguments first, as the function has them. Nothing: not asked for (ReadOptions::locals), or the frame
  // went on while they were read. The values are as of about the same moment, not of exactly one: the program
  // runs.
  std::optional<std::vector<Local>> locals = std::nullopt;
  // Of a stack with frames of several interpreters: whose it is.
  std::optional<std::int64_t> interpreter_id = std::nullopt;
};

// One run of the interpreter's loop, a function in C. Python functions that call each other share one
// since 3.11; before, each has its own. What lies between two of them on the stack is C.
struct EvalLoop {
  std::size_t frames = 0;     // so many of the thread's frames run in it; 0 while it begins or ends
  std::uint64_t c_stack = 0;  // since 3.12: an address in the loop's part of the C stack, else 0
};

// An event loop of asyncio that runs on a thread.
struct LoopTurn {
  std::int64_t turned_ns = 0;  // monotonic: when it began to run the callbacks of this turn; 0 while it waits
  std::size_t depth = 0;       // so many of the thread's innermost frames are callbacks
  bool is_waiting = false;     // for its sockets and timers
  bool is_native = false;      // uvloop: whether it waits is not seen in its frames alone
};

struct Thread {
  pid_t tid = 0;            // as this process sees it; 0 when it could not be found out
  std::string name;         // the kernel's, at most 15 bytes
  std::string python_name;  // threading's, of any length; empty for a thread it does not know
  bool has_gil = false;
  std::vector<Frame> frames;    // innermost first; a generator or coroutine is where it is resumed
  std::vector<EvalLoop> loops;  // innermost first; together they have all frames
  bool torn = false;            // it ran too fast to be read consistently: frames is empty
  bool skipped = false;         // ReadOptions::skip said so: frames is empty
  // There are more frames than ReadOptions::max_depth. `left_out` of them are missing before
  // frames[left_out_at]; 0 when the stack is so deep that the outermost were not found either.
  bool truncated = false;
  std::size_t left_out = 0;
  std::size_t left_out_at = 0;
  // As Python's `interpreters` module counts: 0 is the main one. A thread has a state, and here an entry, in
  // each interpreter that it entered.
  std::int64_t interpreter_id = 0;
  // It holds the GIL of an interpreter that is collecting garbage. Since Python 3.7.
  bool is_collecting = false;
  std::optional<LoopTurn> loop;  // with ReadOptions::event_loops, of a thread that runs one
};

// A task of asyncio that is not done.
struct Task {
  enum class State : std::uint8_t {
    kRunning,  // its frames are among those of its thread
    kReady,    // will run when the event loop comes to it
    kWaiting,  // for something that it awaits
  };
  std::uint64_t id = 0;  // the address of its object: no two tasks have the same
  std::string name;      // empty before Python 3.8, which has no names
  State state = State::kWaiting;
  std::vector<Frame> frames;              // what awaits what, the last one awaited first; none when it runs
  std::vector<std::uint64_t> awaited_by;  // ids of tasks that wait for this one to be done
  pid_t tid = 0;  // of the thread that runs its event loop; 0 when none does, or nobody knows
};

// A greenlet that was switched away from and may be switched back to: of the package greenlet, so of gevent,
// eventlet and the asyncio part of SQLAlchemy.
struct Greenlet {
  std::uint64_t id = 0;  // the address of its object
  std::string type;  // its class as C code knows it: "greenlet.greenlet", "gevent._gevent_cgreenlet.Greenlet"
  bool is_main = false;       // not made by the program: what the thread did when it made its first greenlet
  std::vector<Frame> frames;  // innermost first
  pid_t tid = 0;              // of the thread that it belongs to; 0 when it could not be found out
};

struct Snapshot {
  Version version;
  bool free_threaded = false;
  std::vector<Thread> threads;  // those that have a Python state, the process's first one first
  std::size_t interpreter_count = 0;
  // Whether any interpreter is collecting garbage; nothing before Python 3.7, which does not say.
  std::optional<bool> is_collecting;
  // How often the GIL of the main interpreter has changed hands; nothing when there is none, or nobody knows.
  std::optional<std::uint64_t> gil_switches;
  std::optional<pid_t> gil_holder_tid;    // nothing: nobody has it, or there is none
  std::vector<Task> tasks;                // with ReadOptions::tasks; at most 1,000
  std::optional<std::size_t> task_count;  // all there are; nothing when nobody asked, or nobody knows
  std::string tasks_unknown;        // why nobody knows, or why `tasks` are not those of all interpreters
  std::vector<Greenlet> greenlets;  // with ReadOptions::greenlets_ms: those that are suspended, at most 1,000
  std::optional<std::size_t> greenlet_count;  // all of them; nothing when nobody asked, or nobody knows
  std::string greenlets_unknown;              // why some may be missing
};

}  // namespace probing::cpython
