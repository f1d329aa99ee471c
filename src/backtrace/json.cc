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
    for (const cpython::Local& local : *frame.locals) one["locals"][local.name] = local.text;
  }
  one["kind"] = "python";
  return one;
}

nlohmann::ordered_json TasksToJson(const std::vector<cpython::Task>& tasks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const cpython::Task& task : tasks) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const cpython::Frame& frame : task.frames) frames.push_back(FrameToJson(frame));
    all.push_back({{"name", task.name}, {"state", StateName(task.state)}, {"frames", std::move(frames)}});
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
          {"state", IsDead(thread) ? OrNull("") : process::StateName(thread.kernel.state)},
          {"syscall", OrNull(thread.kernel.syscall)},
          {"wait_channel", OrNull(thread.kernel.wait_channel)},
          {"has_python", thread.has_python},
          {"has_gil", thread.python.has_gil},
          {"torn", thread.python.torn},
          {"truncated", thread.python.truncated},
          {"merged", std::move(merged)},
          {"frames", std::move(frames)},
          {"tasks", TasksToJson(thread.tasks)}};
}

}  // namespace

std::string PictureToJson(const Picture& picture) {
  const cpython::Snapshot& snapshot = picture.snapshot;
  nlohmann::ordered_json answer = {{"pid", picture.pid},
                                   {"python", snapshot.version.ToText()},
                                   {"free_threaded", snapshot.free_threaded},
                                   {"gil_holder", nullptr},
                                   {"threads", nlohmann::ordered_json::array()},
                                   {"tasks", TasksToJson(picture.other_tasks)},
                                   {"task_count", snapshot.task_count}};
  if (snapshot.gil_holder_tid) answer["gil_holder"] = *snapshot.gil_holder_tid;
  for (const ShownThread& thread : picture.threads) answer["threads"].push_back(ToJson(thread));
  // The kernel's thread names may be cut in the middle of a character.
  return answer.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace probing::backtrace
