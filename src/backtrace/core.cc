#include <algorithm>

#include "backtrace/backtrace.h"
#include "backtrace/own_frames.h"
#include "backtrace/version_note.h"
#include "cpython/dead_process.h"
#include "process/core_file.h"

namespace probing::backtrace {
namespace {

// What may be the reason when nothing makes sense.
std::string WhatTheCoreLacks(const process::CoreFile& core) {
  if (core.is_truncated) return "the core file is truncated: was the disk full, or `ulimit -c` too small?";
  if (core.missing_files.empty()) return core.command.empty() ? "" : "it is of `" + core.command + "`";
  std::string text = "missing, or not the same any more: " + core.missing_files.front();
  if (core.missing_files.size() > 1)
    text += " and " + std::to_string(core.missing_files.size() - 1) + " more";
  return text + "; name the program, or a folder with all files, after the core";
}

// Which threads there were, and their Python stacks. Without Python, only with --native.
Result<void> ReadPython(const std::string& path, const Options& options, process::CoreFile core,
                        Picture& picture) {
  const std::vector<pid_t> tids = core.tids;
  auto snapshot = cpython::ReadDead(std::move(core.memory), core.maps, core.pid, core.tids,
                                    {.locals = options.locals,
                                     .depth_of_values = options.depth,
                                     .tasks = true,
                                     .greenlets_ms = kAllGreenletsMs});
  if (snapshot.ok()) {
    picture.snapshot = std::move(*snapshot);
    picture.remarks += AboutVersion(picture.snapshot.version);
  } else if (options.native && snapshot.error().code == Code::kFailed) {
    picture.remarks += "note: " + snapshot.error().message + "; native frames only\n";
  } else {
    return Error{snapshot.error().code, path + ": " + snapshot.error().message, WhatTheCoreLacks(core)};
  }
  for (const cpython::Thread& thread : picture.snapshot.threads) {
    picture.threads.push_back({thread, {.tid = thread.tid}, true});
  }
  for (const pid_t tid : tids) {
    const bool known = std::any_of(picture.threads.begin(), picture.threads.end(),
                                   [&](const ShownThread& thread) { return thread.kernel.tid == tid; });
    if (!known) picture.threads.push_back({{}, {.tid = tid}, false});
  }
  return {};
}

// Everything stands still for ever: each stack is read once, and if the two do not fit they never will.
void AddNative(process::CoreFile core, const Options& options, Picture& picture) {
  unwind::SymbolStore symbols;
  const auto find_file = [&core](const process::Mapping& mapping) {
    const auto found = core.found_files.find(mapping.path);
    return std::vector{found != core.found_files.end() ? found->second : mapping.path};
  };
  unwind::Unwinder unwinder = unwind::Unwinder::OfDead(std::move(core.memory), core.maps, find_file, symbols);
  for (ShownThread& thread : picture.threads) {
    const auto registers = core.registers.find(thread.kernel.tid);
    if (registers == core.registers.end()) {
      thread.no_native = core.other_processor.empty() ? "the core has no registers of this thread"
                                                      : "it is of an " + core.other_processor +
                                                            " machine: look there for native frames";
      continue;
    }
    unwind::MixedReading reading;
    reading.native = unwinder.ReadDead(unwind::FromKernel(registers->second), {});
    if (options.lines) unwinder.AddLines(reading.native);
    reading.python = thread.python;
    reading.stack = unwind::Merge(reading.native, reading.python);
    thread.mixed = std::move(reading);
  }
}

}  // namespace

Result<Picture> ReadCore(const std::string& path, const std::string& program, const Options& options) {
  if (options.stop) return Error{Code::kUsage, "--stop is for a live process, not for a core file", ""};
  ASSIGN_OR_RETURN(process::CoreFile core, process::CoreFile::Open(path, program));
  Picture picture;
  picture.pid = core.pid;
  picture.task_tree = options.task_tree;
  picture.signal = core.signal;
  if (!core.signal.empty())
    picture.remarks = "process " + std::to_string(core.pid) + " was " + core.signal + "\n";
  const std::string note = core.is_truncated ? "note: " + WhatTheCoreLacks(core) + "\n" : "";
  RETURN_IF_ERROR(ReadPython(path, options, std::move(core), picture));
  picture.remarks += note;
  const bool no_python = picture.snapshot.threads.empty();
  std::erase_if(picture.threads, [&](const ShownThread& thread) {
    return !IsShown(thread, {options.selection.tid, options.selection.all || no_python});
  });
  AddTasks(picture, options.selection);
  if (options.native) {
    // Opened again: the reader of Python has the first one.
    ASSIGN_OR_RETURN(process::CoreFile again, process::CoreFile::Open(path, program));
    AddNative(std::move(again), options, picture);
  }
  if (!options.own_frames) LeaveOutOwnFrames(picture.threads);
  return picture;
}

}  // namespace probing::backtrace
