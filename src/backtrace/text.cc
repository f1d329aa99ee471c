#include <algorithm>
#include <string_view>

#include "backtrace/backtrace.h"
#include "backtrace/native_frames.h"

namespace probing::backtrace {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 4;  // of frames

// Characters, not bytes: names may be in any script.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

// Leaves out leading folders until the text fits; the file's own name always stays.
std::string ShortenPath(const std::string& path, std::size_t columns) {
  std::string_view rest = path;
  while (Width(rest) + 4 > columns) {
    const std::size_t slash = rest.find('/', 1);
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash);
  }
  return Width(path) <= columns || rest.size() == path.size() ? path : "..." + std::string(rest);
}

std::string FormatLocals(const cpython::Frame& frame) {
  std::string text;
  if (!frame.locals) return text;
  for (const cpython::Local& local : *frame.locals)
    text += "        " + local.name + " = " + local.text + "\n";
  return text;
}

std::string FormatFrameIndented(const cpython::Frame& frame, std::size_t indent) {
  const std::string line = frame.line == 0 ? "" : ":" + std::to_string(frame.line);
  const std::size_t used = indent + Width(frame.function) + line.size() + std::string_view(" ()").size();
  return std::string(indent, ' ') + frame.function + " (" +
         ShortenPath(frame.file, used < kColumns ? kColumns - used : 0) + line + ")\n" + FormatLocals(frame);
}

std::string FormatFrame(const cpython::Frame& frame) { return FormatFrameIndented(frame, kIndent); }

// Below the frames of the thread that runs its event loop.
std::string FormatTask(const cpython::Task& task) {
  std::string text =
      std::string(kIndent, ' ') + "Task \"" + task.name + "\" (" + StateName(task.state) + ")\n";
  for (const cpython::Frame& frame : task.frames) text += FormatFrameIndented(frame, 2 * kIndent);
  return text;
}

std::string FormatThread(const ShownThread& thread, Emphasis emphasis) {
  std::string text = "Thread " + std::to_string(thread.kernel.tid);
  // What the program calls it says more than what the kernel does, which often is only "python".
  const std::string& name =
      thread.python.python_name.empty() ? thread.kernel.name : thread.python.python_name;
  if (!name.empty()) text += " \"" + name + "\"";
  std::string state = IsDead(thread) ? "" : process::StateName(thread.kernel.state);
  if (thread.kernel.state == 'S' && !thread.kernel.syscall.empty()) state += " in " + thread.kernel.syscall;
  if (thread.python.has_gil) state += state.empty() ? "holds the GIL" : ", holds the GIL";
  if (emphasis == Emphasis::kTerminal) text = "\x1b[1m" + text + "\x1b[0m";
  text += (state.empty() ? "" : " (" + state + ")") + "\n";
  std::string tasks;
  for (const cpython::Task& task : thread.tasks) tasks += FormatTask(task);
  if (thread.mixed) return text + FormatMixed(*thread.mixed, kColumns, FormatFrame) + tasks;
  for (const cpython::Frame& frame : thread.python.frames) text += FormatFrame(frame);
  if (!thread.no_native.empty()) text += "    (no native frames: " + thread.no_native + ")\n";
  if (thread.python.torn) {
    text += IsDead(thread) ? "    (its frames are not all in the core file)\n"
                           : "    (changed faster than it could be read: --stop holds it for a moment)\n";
  } else if (thread.python.frames.empty()) {
    text += thread.has_python ? "    (no Python frame)\n" : "    (not a Python thread)\n";
  }
  if (thread.python.truncated) text += "    (and more)\n";
  return text + tasks;
}

}  // namespace

const char* StateName(cpython::Task::State state) {
  switch (state) {
    case cpython::Task::State::kRunning:
      return "running";
    case cpython::Task::State::kReady:
      return "ready";
    case cpython::Task::State::kWaiting:
      return "waiting";
  }
  return "?";
}

std::string PictureToText(const Picture& picture, Emphasis emphasis) {
  std::string text;
  for (const ShownThread& thread : picture.threads)
    text += (text.empty() ? "" : "\n") + FormatThread(thread, emphasis);
  if (!picture.other_tasks.empty()) {
    text += "\nTasks of event loops without a thread\n";
    for (const cpython::Task& task : picture.other_tasks) text += FormatTask(task);
  }
  if (picture.snapshot.task_count > picture.snapshot.tasks.size()) {
    text += "\n(and " + std::to_string(picture.snapshot.task_count - picture.snapshot.tasks.size()) +
            " more tasks)\n";
  }
  return text;
}

}  // namespace probing::backtrace
