#include <nlohmann/json.hpp>

#include "backtrace/backtrace.h"
#include "backtrace/native_frames.h"

namespace probing::backtrace {
namespace {

nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

nlohmann::ordered_json FrameToJson(const cpython::Frame& frame) {
  nlohmann::ordered_json one = {{"func", frame.function}, {"file", frame.file}, {"lineno", nullptr}};
  if (frame.line != 0) one["lineno"] = frame.line;
  one["frame_type"] = "Python";
  if (frame.locals) {
    one["locals"] = nlohmann::ordered_json::object();
    one["arguments"] = nlohmann::ordered_json::array();  // which of them are arguments
    for (const cpython::Local& local : *frame.locals) {
      one["locals"][local.name] = local.text;
      if (local.is_argument) one["arguments"].push_back(local.name);
    }
  }
  if (frame.interpreter_id) one["interpreter"] = *frame.interpreter_id;
  return one;
}

nlohmann::ordered_json TasksToJson(const std::vector<cpython::Task>& tasks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const cpython::Task& task : tasks) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const cpython::Frame& frame : task.frames) frames.push_back(FrameToJson(frame));
    nlohmann::ordered_json awaited_by = nlohmann::ordered_json::array();
    for (const std::uint64_t id : task.awaited_by) awaited_by.push_back(TaskId(id));
    all.push_back({{"id", TaskId(task.id)},
                   {"name", OrNull(task.name)},
                   {"state", StateName(task.state)},
                   {"awaited_by", std::move(awaited_by)},
                   {"frames", std::move(frames)}});
  }
  return all;
}

nlohmann::ordered_json GreenletsToJson(const std::vector<cpython::Greenlet>& greenlets) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const cpython::Greenlet& greenlet : greenlets) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const cpython::Frame& frame : greenlet.frames) frames.push_back(FrameToJson(frame));
    all.push_back({{"id", TaskId(greenlet.id)},
                   {"type", greenlet.type},
                   {"main", greenlet.is_main},
                   {"frames", std::move(frames)}});
  }
  return all;
}

nlohmann::ordered_json ToJson(const ShownThread& thread) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const cpython::Frame& frame : thread.python.frames) frames.push_back(FrameToJson(frame));
  nlohmann::ordered_json merged = nullptr;
  if (thread.mixed) {
    frames = MixedToJson(*thread.mixed, FrameToJson);
    merged = thread.mixed->stack.merged;
  }
  return {{"tid", thread.kernel.tid},
          {"name", OrNull(thread.kernel.name)},
          {"thread_name", OrNull(thread.python.python_name)},
          {"state", OrNull(IsDead(thread) ? "" : std::string(process::StateWord(thread.kernel.state)))},
          {"syscall", OrNull(thread.kernel.syscall)},
          {"wait_channel", OrNull(thread.kernel.wait_channel)},
          {"has_python", thread.has_python},
          {"has_gil", thread.python.has_gil},
          {"collecting_garbage", thread.python.is_collecting},
          {"interpreter", thread.has_python ? nlohmann::ordered_json(thread.python.interpreter_id)
                                            : nlohmann::ordered_json(nullptr)},
          {"torn", thread.python.torn},
          {"truncated", thread.python.truncated},
          {"frames_left_out", thread.python.left_out},
          {"left_out_before", thread.python.left_out > 0 ? nlohmann::ordered_json(thread.python.left_out_at)
                                                         : nlohmann::ordered_json(nullptr)},
          {"merged", std::move(merged)},
          {"frames", std::move(frames)},
          {"tasks", TasksToJson(thread.tasks)},
          {"greenlets", GreenletsToJson(thread.greenlets)}};
}

}  // namespace

std::string PictureToJson(const Picture& picture) {
  const cpython::Snapshot& snapshot = picture.snapshot;
  nlohmann::ordered_json answer = {{"pid", picture.pid},
                                   {"python", snapshot.version.ToText()},
                                   {"free_threaded", snapshot.free_threaded},
                                   {"gil_holder", nullptr},
                                   {"collecting_garbage", nullptr},
                                   {"threads", nlohmann::ordered_json::array()},
                                   {"tasks", TasksToJson(picture.other_tasks)},
                                   {"task_count", nullptr},
                                   {"tasks_unknown", OrNull(snapshot.tasks_unknown)},
                                   {"greenlets", GreenletsToJson(picture.other_greenlets)},
                                   {"greenlet_count", nullptr},
                                   {"greenlets_unknown", OrNull(snapshot.greenlets_unknown)}};
  if (snapshot.task_count) {
    answer["task_count"] = *snapshot.task_count;
  } else if (snapshot.tasks_unknown.empty()) {
    answer["tasks_unknown"] = "not looked for: no Python";
  }
  if (snapshot.greenlet_count) answer["greenlet_count"] = *snapshot.greenlet_count;
  if (snapshot.is_collecting) answer["collecting_garbage"] = *snapshot.is_collecting;
  if (snapshot.gil_holder_tid) answer["gil_holder"] = *snapshot.gil_holder_tid;
  if (!picture.signal.empty()) answer["signal"] = picture.signal;
  for (const ShownThread& thread : picture.threads) answer["threads"].push_back(ToJson(thread));
  // The kernel's thread names may be cut in the middle of a character.
  return answer.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace probing::backtrace
