// What `probing backtrace` shows: the threads of a live process or of a core file. Also what probingd
// answers to those who ask from elsewhere.
//
// One file for each step: selection (which threads), live and core (what they do), text and json (how
// it is printed).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpython/snapshot.h"
#include "process/thread_status.h"
#include "unwind/mixed_reader.h"

namespace probing::backtrace {

class ThreadStatuses;

struct ShownThread {
  cpython::Thread python;
  process::ThreadStatus kernel;
  bool has_python = false;
  std::optional<unwind::MixedReading> mixed;  // with --native
  std::string no_native;                      // why not
  std::vector<cpython::Task> tasks;           // of the event loop that it runs
  std::vector<cpython::Greenlet> greenlets;   // that are suspended, of this thread
};

// Of a core file: nobody knows any more what it was called and what it did.
inline bool IsDead(const ShownThread& thread) {
  return thread.kernel.state == '?' && thread.kernel.name.empty();
}

struct Picture {
  pid_t pid = 0;
  bool task_tree = false;
  std::string remarks;  // lines for people, no part of the result
  std::string signal;   // of a core file: what ended the process, if that is known
  cpython::Snapshot snapshot;
  std::vector<ShownThread> threads;
  std::vector<cpython::Task> other_tasks;          // of event loops that nobody runs, or of an unknown kind
  std::vector<cpython::Greenlet> other_greenlets;  // nobody knows of which thread
};

const char* StateName(cpython::Task::State state);
std::string TaskId(std::uint64_t id);  // as Python's id() in hexadecimal: "0x7f3457…"

struct Selection {
  std::optional<pid_t> tid;  // only this thread
  bool all = false;          // also those that run no Python
};
bool IsShown(const ShownThread& thread, const Selection& selection);
struct Options {
  Selection selection;
  bool native = false;
  bool lines = false;  // of native frames: REQUIRES: native
  bool stop = false;   // hold all threads meanwhile
  bool locals = false;
  bool own_frames = false;                  // also those of the probe's own functions
  bool greenlets = false;                   // looks at all objects for them, however long that takes
  bool task_tree = false;                   // tasks below those that wait for them
  bool wait_channels = false;               // also where in the kernel a thread sleeps, which only JSON has
  int depth = cpython::kDefaultValueDepth;  // levels of containers in a variable
};

// How long all objects are looked at for suspended greenlets.
inline constexpr std::int64_t kQuickGreenletsMs = 100;
inline constexpr std::int64_t kAllGreenletsMs = 20'000;
inline std::int64_t GreenletsMs(const Options& options) {
  return options.greenlets ? kAllGreenletsMs : kQuickGreenletsMs;
}

// Options::depth of a text.
Result<int> DepthOf(const std::string& text);

// Of a live process: those with Python first, as the snapshot has them, then all others.
std::vector<ShownThread> Select(pid_t pid, const cpython::Snapshot& snapshot, const Options& options,
                                const ThreadStatuses& statuses);

Result<Picture> ReadLive(pid_t pid, const Options& options);
// `program` is the executable or a folder with all files; "" to take them from where they were.
Result<Picture> ReadCore(const std::string& path, const std::string& program, const Options& options);

// Gives every task and greenlet of the snapshot to its thread. Those of threads that are not shown are left
// out.
void AddTasks(Picture& picture, const Selection& selection);

// An error when the thread that was asked for is not there.
Result<void> CheckShown(const Picture& picture, const Options& options);

enum class Emphasis : std::uint8_t { kNone, kTerminal };
struct TextStyle {
  Emphasis emphasis = Emphasis::kNone;
  // Of the terminal that shows it. 0, in pipes and files: names of native functions stay whole.
  std::size_t columns = 0;
};
std::string PictureToText(const Picture& picture, const TextStyle& style);
std::string PictureToJson(const Picture& picture);

}  // namespace probing::backtrace
