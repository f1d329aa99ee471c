#include "backtrace/task_tree.h"

#include <algorithm>
#include <map>
#include <set>

#include "backtrace/backtrace.h"
#include "base/visible.h"

namespace probing::backtrace {
namespace {

using cpython::Task;

constexpr std::size_t kMaxNesting = 256;  // of tasks: deeper ones are named only

class TreePrinter {
 public:
  TreePrinter(const std::vector<Task>& tasks, std::size_t indent) : tasks_(tasks), indent_(indent) {
    std::map<std::uint64_t, std::size_t> index;
    for (std::size_t i = 0; i < tasks.size(); ++i) index.emplace(tasks[i].id, i);
    children_.resize(tasks.size());
    is_child_.resize(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      for (const std::uint64_t id : tasks[i].awaited_by) {
        const auto parent = index.find(id);
        if (parent == index.end()) continue;
        children_[parent->second].push_back(i);
        is_child_[i] = true;
      }
    }
  }

  std::string Print() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!is_child_[i]) PrintTask(i, std::string(indent_, ' '), true);
    }
    // What is left is reached from no root: a circle.
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!shown_.contains(i)) PrintTask(i, std::string(indent_, ' '), true);
    }
    return std::move(text_);
  }

 private:
  void PrintTask(std::size_t index, std::string prefix, bool is_last) {
    const Task& task = tasks_[index];
    const std::string name = task.name.empty() ? TaskId(task.id) : Visible(task.name);
    text_ += prefix + (is_last ? "└── " : "├── ") + "(T) " + name;
    const bool is_circle = std::find(path_.begin(), path_.end(), index) != path_.end();
    if (is_circle || !shown_.insert(index).second || path_.size() >= kMaxNesting) {
      text_ += is_circle ? " (waits for itself: a circle)\n" : " (see above)\n";
      return;
    }
    text_ += task.state == Task::State::kWaiting ? "\n" : " (" + std::string(StateName(task.state)) + ")\n";
    prefix += is_last ? "    " : "│   ";
    for (auto frame = task.frames.rbegin(); frame != task.frames.rend(); ++frame) {
      const std::string line = frame->line == 0 ? "" : ":" + std::to_string(frame->line);
      text_ += prefix + "└── " + Visible(frame->function) + " (" + Visible(frame->file) + line + ")\n";
      prefix += "    ";
    }
    path_.push_back(index);
    const std::vector<std::size_t>& children = children_[index];
    for (std::size_t i = 0; i < children.size(); ++i) {
      PrintTask(children[i], prefix, i + 1 == children.size());
    }
    path_.pop_back();
  }

  const std::vector<Task>& tasks_;
  std::size_t indent_;
  std::vector<std::vector<std::size_t>> children_;
  std::vector<bool> is_child_;
  std::set<std::size_t> shown_;
  std::vector<std::size_t> path_;
  std::string text_;
};

}  // namespace

std::string FormatTaskTree(const std::vector<Task>& tasks, std::size_t indent) {
  return TreePrinter(tasks, indent).Print();
}

}  // namespace probing::backtrace
