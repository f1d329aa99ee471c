#include "daemon/discovery.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "process/maps.h"
#include "process/status.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace {

bool IsProbeSocket(std::string_view name) {
  return name.ends_with(".sock") && IsNumber(name.substr(0, name.size() - 5));
}

// "" for our own mount namespace, and /proc/PID/root of one process in every other.
std::vector<std::string> Roots() {
  std::vector<std::string> roots{""};
  std::set<std::string> seen;
  if (const Result<std::string> own = ReadLink("/proc/self/ns/mnt"); own.ok()) seen.insert(*own);
  for (const pid_t pid : process::ListProcesses()) {
    const std::string folder = "/proc/" + std::to_string(pid);
    // Fails for other users' processes, whose probes are none of our business anyway.
    const Result<std::string> space = ReadLink(folder + "/ns/mnt");
    if (space.ok() && seen.insert(*space).second) roots.push_back(folder + "/root");
  }
  return roots;
}

void AddSockets(const std::vector<std::string>& directories, std::vector<std::string>& paths) {
  for (const std::string& directory : directories) {
    const Result<std::vector<std::string>> names = ListDirectory(directory);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (IsProbeSocket(name)) paths.push_back(directory + "/" + name);
    }
  }
}

}  // namespace

std::vector<std::string> FindProbeSockets() {
  std::vector<std::string> paths;
  for (const std::string& root : Roots()) {
    AddSockets(root.empty() ? wire::OwnRuntimeDirectories() : wire::RuntimeDirectories(geteuid(), root),
               paths);
  }
  return paths;
}

std::vector<std::string> FindOwnProbeSockets() {
  std::vector<std::string> paths;
  AddSockets(wire::OwnRuntimeDirectories(), paths);
  return paths;
}

Result<pid_t> ListenerOf(const std::string& path) {
  const Result<ScopedFd> fd = wire::Connect(path, geteuid(), /*timeout_ms=*/0);
  if (!fd.ok()) {
    const std::string pid(process::BaseName(path).substr(0, process::BaseName(path).find('.')));
    const bool ours = !path.starts_with("/proc/");
    if (ours && access(("/proc/" + pid).c_str(), F_OK) != 0) wire::RemoveIfStale(path);
    return fd.error();
  }
  ASSIGN_OR_RETURN(const wire::Peer peer, wire::PeerOf(fd->get()));
  if (peer.uid != geteuid()) return Error{Code::kPermission, path + " is not served by this user", ""};
  if (peer.pid == 0) return Error{Code::kNotFound, path + " belongs to a pid namespace we cannot see", ""};
  return peer.pid;
}

}  // namespace probing::daemon
