#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "backtrace/backtrace.h"
#include "backtrace/native_frames.h"
#include "backtrace/task_tree.h"
#include "base/source_path.h"
#include "base/visible.h"

namespace probing::backtrace {
namespace {

constexpr std::size_t kIndent = 4;  // of frames

constexpr std::string_view kThreadColour = "36";  // the codes of terminals: cyan, bold, faint
constexpr std::string_view kUserColour = "1";
constexpr std::string_view kLibraryColour = "2";

std::string Painted(const TextStyle& style, std::string_view colour, std::string text) {
  if (style.emphasis != Emphasis::kTerminal) return text;
  return "\x1b[" + std::string(colour) + "m" + std::move(text) + "\x1b[0m";
}

std::string FormatLocals(const cpython::Frame& frame) {
  std::string arguments;
  std::string locals;
  if (!frame.locals) return "";
  for (const cpython::Local& local : *frame.locals) {
    (local.is_argument ? arguments : locals) +=
        std::string(3 * kIndent, ' ') + Visible(local.name) + " = " + Visible(local.text) + "\n";
  }
  const std::string indent(2 * kIndent, ' ');
  return (arguments.empty() ? "" : indent + "Arguments:\n" + arguments) +
         (locals.empty() ? "" : indent + "Locals:\n" + locals);
}

// The user's own frames stand out from those of libraries.
std::string FormatFrameIndented(const cpython::Frame& frame, std::size_t indent, const TextStyle& style) {
  const std::string line = frame.line == 0 ? "" : ":" + std::to_string(frame.line);
  const std::string text =
      Visible(frame.function) + " (" + Visible(std::string(ShortPath(frame.file))) + line + ")";
  const std::string_view colour = IsLibraryFile(frame.file) ? kLibraryColour : kUserColour;
  return std::string(indent, ' ') + Painted(style, colour, text) + "\n" + FormatLocals(frame);
}

std::string FormatFrame(const cpython::Frame& frame, const TextStyle& style) {
  std::string text = FormatFrameIndented(frame, kIndent, style);
  if (frame.interpreter_id) {
    text.insert(text.find('\n'), " [interpreter " + std::to_string(*frame.interpreter_id) + "]");
  }
  return text;
}

// Below the frames of the thread that runs its event loop.
std::string FormatTask(const cpython::Task& task, const TextStyle& style) {
  const std::string name = task.name.empty() ? TaskId(task.id) : "\"" + Visible(task.name) + "\"";
  std::string text = std::string(kIndent, ' ') + "Task " + name + " (" + StateName(task.state) + ")\n";
  for (const cpython::Frame& frame : task.frames) text += FormatFrameIndented(frame, 2 * kIndent, style);
  return text;
}

std::string FormatTasks(const Picture& picture, const std::vector<cpython::Task>& tasks,
                        const TextStyle& style) {
  if (picture.task_tree) return FormatTaskTree(tasks, kIndent);
  std::string text;
  for (const cpython::Task& task : tasks) text += FormatTask(task, style);
  return text;
}

std::string FormatGreenlets(const std::vector<cpython::Greenlet>& greenlets, const TextStyle& style) {
  std::string text;
  for (const cpython::Greenlet& greenlet : greenlets) {
    text += std::string(kIndent, ' ') + (greenlet.is_main ? "Main greenlet " : "Greenlet ") +
            TaskId(greenlet.id) + " (" + Visible(greenlet.type) + ", suspended)\n";
    for (const cpython::Frame& frame : greenlet.frames)
      text += FormatFrameIndented(frame, 2 * kIndent, style);
  }
  return text;
}

// "sleeping in epoll_wait, holds the GIL": what is known about it besides its frames.
std::string DescribeThread(const Picture& picture, const ShownThread& thread) {
  std::string text = IsDead(thread) ? "" : std::string(process::StateWord(thread.kernel.state));
  if (thread.kernel.state == 't') text += " by a debugger";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  const bool waits = thread.kernel.state == 'S' || thread.kernel.state == 'D';
  if (waits && !thread.kernel.syscall.empty()) text += " in " + thread.kernel.syscall;
  if (thread.python.has_gil) add("holds the GIL");
  if (thread.python.is_collecting) add("collecting garbage");
  if (picture.snapshot.interpreter_count > 1 && thread.has_python && !thread.mixed) {
    add("interpreter " + std::to_string(thread.python.interpreter_id));
  }
  return text;
}

std::string FormatThread(const Picture& picture, const ShownThread& thread, const TextStyle& style) {
  std::string text = "Thread " + std::to_string(thread.kernel.tid);
  // What the program calls it says more than what the kernel does, which often is only "python".
  const std::string& name =
      thread.python.python_name.empty() ? thread.kernel.name : thread.python.python_name;
  if (!name.empty()) text += " \"" + Visible(name) + "\"";
  const std::string state = DescribeThread(picture, thread);
  text = Painted(style, kThreadColour, text);
  text += (state.empty() ? "" : " (" + state + ")") + "\n";
  const std::string tasks =
      FormatTasks(picture, thread.tasks, style) + FormatGreenlets(thread.greenlets, style);
  const auto format = [&style](const cpython::Frame& frame) { return FormatFrame(frame, style); };
  if (thread.mixed) return text + FormatMixed(*thread.mixed, style.columns, format) + tasks;
  for (std::size_t i = 0; i < thread.python.frames.size(); ++i) {
    if (thread.python.left_out > 0 && i == thread.python.left_out_at) {
      text += "    (" + std::to_string(thread.python.left_out) + " frames left out)\n";
    }
    text += FormatFrame(thread.python.frames[i], style);
  }
  if (!thread.no_native.empty()) text += "    (no native frames: " + thread.no_native + ")\n";
  if (thread.python.torn) {
    text += IsDead(thread) ? "    (its frames are not all in the core file)\n"
                           : "    (changed faster than it could be read: --stop holds it for a moment)\n";
  } else if (thread.python.frames.empty()) {
    text += thread.has_python ? "    (no Python frame)\n" : "    (not a Python thread)\n";
  }
  if (thread.python.truncated && thread.python.left_out == 0) text += "    (and more)\n";
  return text + tasks;
}

}  // namespace

std::string TaskId(std::uint64_t id) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(id));
  return text.data();
}

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

std::string PictureToText(const Picture& picture, const TextStyle& style) {
  std::string text;
  for (const ShownThread& thread : picture.threads)
    text += (text.empty() ? "" : "\n") + FormatThread(picture, thread, style);
  if (!picture.other_tasks.empty()) {
    text += "\nTasks of event loops without a thread\n";
    text += FormatTasks(picture, picture.other_tasks, style);
  }
  const std::size_t tasks = picture.snapshot.tasks.size();
  if (const auto count = picture.snapshot.task_count; count && *count > tasks) {
    text += "\n(and " + std::to_string(*count - tasks) + " more tasks)\n";
  }
  if (!picture.snapshot.tasks_unknown.empty()) {
    text += "\n(not all tasks of asyncio are known: " + picture.snapshot.tasks_unknown + ")\n";
  }
  if (!picture.other_greenlets.empty()) {
    text += "\nGreenlets of unknown threads\n" + FormatGreenlets(picture.other_greenlets, style);
  }
  const std::size_t greenlets = picture.snapshot.greenlets.size();
  if (const auto count = picture.snapshot.greenlet_count; count && *count > greenlets) {
    text += "\n(and " + std::to_string(*count - greenlets) + " more greenlets)\n";
  }
  if (!picture.snapshot.greenlets_unknown.empty()) {
    text += "\n(some greenlets may be missing: " + picture.snapshot.greenlets_unknown + ")\n";
  }
  return text;
}

}  // namespace probing::backtrace
