#include "observe/stacks/descendants.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "base/file.h"
#include "base/stat_line.h"
#include "base/text.h"
#include "process/status.h"

namespace probing::observe {
namespace {

std::vector<pid_t> ParsePids(std::string_view text) {
  std::vector<pid_t> pids;
  while (!text.empty()) {
    const std::string_view word = TakePart(text, ' ');
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pid);
    if (error == std::errc() && end == word.data() + word.size()) pids.push_back(pid);
  }
  return pids;
}

// A file per thread lists the children which that thread started. Not every kernel has it.
std::vector<pid_t> ChildrenOf(pid_t pid, const std::string& proc_root) {
  std::vector<pid_t> children;
  const std::string folder = proc_root + "/" + std::to_string(pid) + "/task/";
  const auto threads = process::ListThreads(pid, proc_root);
  for (const pid_t tid : threads.ok() ? *threads : std::vector<pid_t>{}) {
    const auto text = ReadFile(folder + std::to_string(tid) + "/children");
    if (!text.ok()) continue;
    const std::vector<pid_t> some = ParsePids(*text);
    children.insert(children.end(), some.begin(), some.end());
  }
  return children;
}

pid_t ParentOf(pid_t pid, const std::string& proc_root) {
  constexpr int kParent = 4;
  const auto stat = ReadFile(proc_root + "/" + std::to_string(pid) + "/stat");
  return stat.ok() ? static_cast<pid_t>(StatLine(*stat).Field(kParent).value_or(0)) : 0;
}

// The slow way: everybody is asked for its parent.
std::multimap<pid_t, pid_t> AllChildren(const std::string& proc_root) {
  std::multimap<pid_t, pid_t> children;
  const auto names = ListDirectory(proc_root);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
    for (const pid_t pid : ParsePids(name)) children.emplace(ParentOf(pid, proc_root), pid);
  }
  return children;
}

}  // namespace

std::vector<pid_t> FindDescendants(pid_t pid, const std::string& proc_root) {
  const std::string self = std::to_string(pid);
  const bool has_lists = ReadFile(proc_root + "/" + self + "/task/" + self + "/children").ok();
  const auto all = has_lists ? std::multimap<pid_t, pid_t>{} : AllChildren(proc_root);
  std::set<pid_t> found;
  std::vector<pid_t> pending{pid};
  while (!pending.empty()) {
    const pid_t parent = pending.back();
    pending.pop_back();
    std::vector<pid_t> children;
    if (has_lists) {
      children = ChildrenOf(parent, proc_root);
    } else {
      const auto [begin, end] = all.equal_range(parent);
      std::transform(begin, end, std::back_inserter(children),
                     [](const auto& entry) { return entry.second; });
    }
    for (const pid_t child : children) {
      if (child != pid && found.insert(child).second) pending.push_back(child);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace probing::observe
