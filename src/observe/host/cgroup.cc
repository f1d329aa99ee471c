#include "observe/host/cgroup.h"

#include <fcntl.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace probing::observe {
namespace {

// Version 1 says "no limit" with the largest number of pages that fits.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

struct Mount {
  std::string folder;  // where
  std::string root;    // which group is seen there
  std::string kind;    // "cgroup2", or the controllers of version 1: "cpu,cpuacct"
};

bool HasController(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (TakePart(list, ',') == name) return true;
  }
  return false;
}

// "36 32 0:31 /root /mount/point rw … - cgroup cgroup rw,memory"
std::vector<Mount> ReadMounts(const std::string& proc_root) {
  std::vector<Mount> mounts;
  const auto content = ReadFile(proc_root + "/self/mountinfo");
  std::string_view text = content.ok() ? std::string_view(*content) : "";
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view type_part = line.substr(dash + 3);
    const std::string_view type = TakeWord(type_part);
    if (type != "cgroup" && type != "cgroup2") continue;
    TakeWord(type_part);
    const std::string_view options = TakeWord(type_part);
    for (int i = 0; i < 3; ++i) TakeWord(line);
    Mount mount;
    mount.root = TakeWord(line);
    mount.folder = TakeWord(line);
    mount.kind = type == "cgroup2" ? "cgroup2" : options;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

// The folder of `group` under `mount`, then its ancestors up to the mount.
std::vector<std::string> FoldersOf(const Mount& mount, std::string_view group) {
  if (mount.root != "/") {
    if (!group.starts_with(mount.root)) return {};
    group.remove_prefix(mount.root.size());
    if (!group.empty() && group.front() != '/') return {};
  }
  if (group.find("/..") != std::string_view::npos) return {};  // outside of what we may see
  while (!group.empty() && group.back() == '/') group.remove_suffix(1);
  std::vector<std::string> folders;
  while (!group.empty()) {
    folders.push_back(mount.folder + std::string(group));
    group = group.substr(0, group.rfind('/'));
  }
  folders.push_back(mount.folder);
  return folders;
}

Number ReadNumberFile(const std::string& path) {
  const auto content = ReadFile(path);
  return content.ok() ? ParseNumber(*content) : Number();
}

}  // namespace

CgroupFolders FindCgroups(pid_t pid, const std::string& proc_root) {
  CgroupFolders found;
  const auto content = ReadFile(proc_root + "/" + std::to_string(pid) + "/cgroup");
  if (!content.ok()) return found;
  const std::vector<Mount> mounts = ReadMounts(proc_root);
  std::string_view text = *content;
  while (!text.empty()) {  // "4:memory:/group", or "0::/group" for version 2
    const std::string_view line = TakeLine(text);
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    for (const Mount& mount : mounts) {
      const bool is_v2 = controllers.empty();
      if (is_v2 != (mount.kind == "cgroup2")) continue;
      const auto use = [&](std::string_view name, std::vector<std::string>& folders, bool& folders_v2) {
        // Where both versions are mounted, the controllers are with version 1.
        const bool is_here =
            is_v2 ? folders.empty() : HasController(controllers, name) && HasController(mount.kind, name);
        if (!is_here) return;
        folders = FoldersOf(mount, group);
        folders_v2 = is_v2;
      };
      use("memory", found.memory, found.memory_is_v2);
      use("cpu", found.cpu, found.cpu_is_v2);
    }
  }
  return found;
}

MemoryLimit ReadMemoryLimit(const CgroupFolders& folders) {
  const std::string limit_name = folders.memory_is_v2 ? "/memory.max" : "/memory.limit_in_bytes";
  const std::string used_name = folders.memory_is_v2 ? "/memory.current" : "/memory.usage_in_bytes";
  MemoryLimit result;
  std::string limited;
  for (const std::string& folder : folders.memory) {
    const Number limit = ReadNumberFile(folder + limit_name);  // "max" is no number
    if (!limit.has_value() || *limit >= kUnlimited) continue;
    if (result.limit_bytes.has_value() && *limit >= *result.limit_bytes) continue;
    result.limit_bytes = limit;
    limited = folder;
  }
  if (limited.empty() && !folders.memory.empty()) limited = folders.memory.front();
  if (!limited.empty()) result.used_bytes = ReadNumberFile(limited + used_name);
  return result;
}

Number ReadOomKills(const CgroupFolders& folders) {
  if (folders.memory.empty()) return std::nullopt;
  const auto text =
      ReadFile(folders.memory.front() + (folders.memory_is_v2 ? "/memory.events" : "/memory.oom_control"));
  return text.ok() ? FindNumber(*text, "oom_kill ") : Number();
}

ThrottledTime::ThrottledTime(const CgroupFolders& folders, FileBudget* budget) : is_v2_(folders.cpu_is_v2) {
  if (!folders.cpu.empty()) stat_.emplace(AT_FDCWD, folders.cpu.front() + "/cpu.stat", budget);
}

Number ThrottledTime::Read(std::string& scratch) {
  if (!stat_.has_value()) return std::nullopt;
  const std::string_view text = stat_->Read(scratch).value_or("");
  return is_v2_ ? Times(FindNumber(text, "throttled_usec "), 1000) : FindNumber(text, "throttled_time ");
}

}  // namespace probing::observe
