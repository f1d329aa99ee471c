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
  std::string remarks;  // lines for people, no part of the result
  cpython::Snapshot snapshot;
  std::vector<ShownThread> threads;
  std::vector<cpython::Task> other_tasks;  // of event loops that nobody runs, or of an unknown kind
};

const char* StateName(cpython::Task::State state);

struct Selection {
  std::optional<pid_t> tid;  // only this thread
  bool all = false;          // also those that run no Python
};
bool IsShown(const ShownThread& thread, const Selection& selection);
// Of a live process: those with Python first, as the snapshot has them, then all others.
std::vector<ShownThread> Select(pid_t pid, const cpython::Snapshot& snapshot, const Selection& selection);

struct Options {
  Selection selection;
  bool native = false;
  bool stop = false;  // hold all threads meanwhile
  bool locals = false;
};

Result<Picture> ReadLive(pid_t pid, const Options& options);
// `program` is the executable or a folder with all files; "" to take them from where they were.
Result<Picture> ReadCore(const std::string& path, const std::string& program, const Options& options);

// An error when the thread that was asked for is not there.
Result<void> CheckShown(const Picture& picture, const Options& options);

enum class Emphasis : std::uint8_t { kNone, kTerminal };
std::string PictureToText(const Picture& picture, Emphasis emphasis);
std::string PictureToJson(const Picture& picture);

}  // namespace probing::backtrace
