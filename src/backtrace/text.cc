#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "backtrace/backtrace.h"
#include "backtrace/native_frames.h"
#include "backtrace/task_tree.h"
#include "base/visible.h"

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

std::string FormatFrameIndented(const cpython::Frame& frame, std::size_t indent) {
  const std::string line = frame.line == 0 ? "" : ":" + std::to_string(frame.line);
  const std::string function = Visible(frame.function);
  const std::size_t used = indent + Width(function) + line.size() + std::string_view(" ()").size();
  return std::string(indent, ' ') + function + " (" +
         ShortenPath(Visible(frame.file), used < kColumns ? kColumns - used : 0) + line + ")\n" +
         FormatLocals(frame);
}

std::string FormatFrame(const cpython::Frame& frame) {
  std::string text = FormatFrameIndented(frame, kIndent);
  if (frame.interpreter_id) {
    text.insert(text.find('\n'), " [interpreter " + std::to_string(*frame.interpreter_id) + "]");
  }
  return text;
}

// Below the frames of the thread that runs its event loop.
std::string FormatTask(const cpython::Task& task) {
  const std::string name = task.name.empty() ? TaskId(task.id) : "\"" + Visible(task.name) + "\"";
  std::string text = std::string(kIndent, ' ') + "Task " + name + " (" + StateName(task.state) + ")\n";
  for (const cpython::Frame& frame : task.frames) text += FormatFrameIndented(frame, 2 * kIndent);
  return text;
}

std::string FormatTasks(const Picture& picture, const std::vector<cpython::Task>& tasks) {
  if (picture.task_tree) return FormatTaskTree(tasks, kIndent);
  std::string text;
  for (const cpython::Task& task : tasks) text += FormatTask(task);
  return text;
}

std::string FormatGreenlets(const std::vector<cpython::Greenlet>& greenlets) {
  std::string text;
  for (const cpython::Greenlet& greenlet : greenlets) {
    text += std::string(kIndent, ' ') + (greenlet.is_main ? "Main greenlet " : "Greenlet ") +
            TaskId(greenlet.id) + " (" + Visible(greenlet.type) + ", suspended)\n";
    for (const cpython::Frame& frame : greenlet.frames) text += FormatFrameIndented(frame, 2 * kIndent);
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
  if (style.emphasis == Emphasis::kTerminal) text = "\x1b[1m" + text + "\x1b[0m";
  text += (state.empty() ? "" : " (" + state + ")") + "\n";
  const std::string tasks = FormatTasks(picture, thread.tasks) + FormatGreenlets(thread.greenlets);
  if (thread.mixed) return text + FormatMixed(*thread.mixed, style.columns, FormatFrame) + tasks;
  for (std::size_t i = 0; i < thread.python.frames.size(); ++i) {
    if (thread.python.left_out > 0 && i == thread.python.left_out_at) {
      text += "    (" + std::to_string(thread.python.left_out) + " frames left out)\n";
    }
    text += FormatFrame(thread.python.frames[i]);
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
    text += FormatTasks(picture, picture.other_tasks);
  }
  const std::size_t tasks = picture.snapshot.tasks.size();
  if (const auto count = picture.snapshot.task_count; count && *count > tasks) {
    text += "\n(and " + std::to_string(*count - tasks) + " more tasks)\n";
  }
  if (!picture.snapshot.tasks_unknown.empty()) {
    text += "\n(not all tasks of asyncio are known: " + picture.snapshot.tasks_unknown + ")\n";
  }
  if (!picture.other_greenlets.empty()) {
    text += "\nGreenlets of unknown threads\n" + FormatGreenlets(picture.other_greenlets);
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
