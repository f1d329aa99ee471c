// What `probing backtrace` shows: the threads of a live process or of a core file.
//
// One file for each step: backtrace_selection (which threads), backtrace_live and backtrace_core (what
// they do), backtrace_text and backtrace_json (how it is printed).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cpython/snapshot.h"
#include "process/thread_status.h"
#include "unwind/mixed_reader.h"

namespace probing::cli {

struct ShownThread {
  cpython::Thread python;
  process::ThreadStatus kernel;
  bool has_python = false;
  std::optional<unwind::MixedReading> mixed;  // with --native
  std::string no_native;                      // why not
  std::vector<cpython::Task> tasks;           // of the event loop that it runs
};

// Of a core file: nobody knows any more what it was called and what it did.
inline bool IsDead(const ShownThread& thread) {
  return thread.kernel.state == '?' && thread.kernel.name.empty();
}

struct Picture {
  pid_t pid = 0;
  cpython::Snapshot snapshot;
  std::vector<ShownThread> threads;
  std::vector<cpython::Task> other_tasks;  // of event loops that nobody runs, or of an unknown kind
};

const char* StateName(cpython::Task::State state);

// --tid and --all.
struct Selection {
  std::optional<pid_t> tid;
  bool all = false;
};
Result<Selection> ParseSelection(const Invocation& invocation);
bool IsShown(const ShownThread& thread, const Selection& selection);
// Of a live process: those with Python first, as the snapshot has them, then all others.
std::vector<ShownThread> Select(pid_t pid, const cpython::Snapshot& snapshot, const Selection& selection);

// REQUIRES: there is a target.
Result<Picture> ReadLive(const Invocation& invocation, const Selection& selection);
// REQUIRES: there is --core.
Result<Picture> ReadCore(const Invocation& invocation, const Selection& selection);

std::string PictureToText(const Picture& picture);
std::string PictureToJson(const Picture& picture);

}  // namespace probing::cli
