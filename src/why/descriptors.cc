#include "why/descriptors.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace probing::why {

std::uint64_t InodeOf(std::string_view path) {
  if (!path.starts_with("pipe:[") && !path.starts_with("socket:[")) return 0;
  path.remove_prefix(path.find('[') + 1);
  std::uint64_t inode = 0;
  return path.ends_with(']') && ParseNumber(path.substr(0, path.size() - 1), inode) ? inode : 0;
}

const std::vector<pid_t>& Descriptors::Processes() {
  if (!processes_.empty()) return processes_;
  const auto names = ListDirectory(root_);
  if (!names.ok()) return processes_;
  for (const std::string& name : *names) {
    pid_t pid = 0;
    if (IsNumber(name) && ParseNumber(name, pid)) processes_.push_back(pid);
  }
  std::ranges::sort(processes_);
  return processes_;
}

const std::vector<Descriptor>& Descriptors::Of(pid_t pid) {
  const auto known = of_.find(pid);
  if (known != of_.end()) return known->second;
  std::vector<Descriptor>& all = of_[pid];
  const std::string folder = root_ + "/" + std::to_string(pid) + "/fd";
  const auto names = ListDirectory(folder);
  if (!names.ok()) return all;
  for (const std::string& name : *names) {
    Descriptor one;
    one.pid = pid;
    if (!ParseNumber(name, one.fd)) continue;
    auto path = ReadLink(folder + "/" + name);
    if (!path.ok()) continue;
    one.path = std::move(*path);
    one.inode = InodeOf(one.path);
    struct stat about{};
    // The link's own rights say how the file was opened.
    if (lstat((folder + "/" + name).c_str(), &about) == 0) {
      one.readable = (about.st_mode & S_IRUSR) != 0;
      one.writable = (about.st_mode & S_IWUSR) != 0;
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::optional<Descriptor> Descriptors::Find(pid_t pid, int fd) {
  for (const Descriptor& one : Of(pid)) {
    if (one.fd == fd) return one;
  }
  return std::nullopt;
}

void Descriptors::ReadAll() {
  if (read_all_) return;
  read_all_ = true;
  for (const pid_t pid : Processes()) {
    for (const Descriptor& one : Of(pid)) {
      if (one.inode != 0) by_inode_[one.inode].emplace_back(pid, one.fd);
    }
  }
}

std::vector<Descriptor> Descriptors::Holders(std::uint64_t inode) {
  ReadAll();
  std::vector<Descriptor> holders;
  const auto found = by_inode_.find(inode);
  if (inode == 0 || found == by_inode_.end()) return holders;
  for (const auto& [pid, fd] : found->second) {
    if (auto one = Find(pid, fd)) holders.push_back(std::move(*one));
  }
  return holders;
}

std::vector<Descriptor> Descriptors::Holders(const Descriptor& like) {
  if (like.inode != 0) return Holders(like.inode);
  std::vector<Descriptor> holders;
  for (const pid_t pid : Processes()) {
    for (const Descriptor& one : Of(pid)) {
      if (one.path == like.path) holders.push_back(one);
    }
  }
  return holders;
}

std::string Descriptors::InfoText(pid_t pid, int fd) const {
  auto text = ReadFile(root_ + "/" + std::to_string(pid) + "/fdinfo/" + std::to_string(fd));
  return text.ok() ? std::move(*text) : "";
}

std::string Descriptors::Info(pid_t pid, int fd, std::string_view name) const {
  const std::string text = InfoText(pid, fd);
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = TakePart(rest, '\n');
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    return std::string(Trim(line, " \t"));
  }
  return "";
}

std::vector<int> Descriptors::Watched(pid_t pid, int epoll_fd) const {
  std::vector<int> watched;
  const std::string text = InfoText(pid, epoll_fd);
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = TakePart(rest, '\n');
    if (!line.starts_with("tfd:")) continue;
    line.remove_prefix(4);
    line = Trim(line, " \t");
    int fd = -1;
    if (ParseNumber(TakePart(line, ' '), fd)) watched.push_back(fd);
  }
  return watched;
}

}  // namespace probing::why
