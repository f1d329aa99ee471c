#include "why/explain.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "process/status.h"
#include "why/investigation.h"

namespace probing::why {
namespace {

Result<void> CheckReadable(pid_t pid) {
  ASSIGN_OR_RETURN(const process::Status status, process::ReadStatus(pid));
  if (status.ended()) return {};  // that is an answer, too
  const auto call = ReadFile("/proc/" + std::to_string(pid) + "/syscall");
  if (call.ok() || call.error().code != Code::kPermission) return {};
  return Error{Code::kPermission, "process " + std::to_string(pid) + " may not be looked into",
               "run as its owner or as root; `probing doctor` tells more"};
}

bool IsWaitOfThread(const Graph& graph, const Chain& chain) {
  return chain.end != End::kIdle && (chain.steps.size() > 1 || chain.end == End::kDeadlock ||
                                     graph.nodes[chain.root()].end == End::kKernel);
}

}  // namespace

std::vector<pid_t> FindPythons() {
  std::vector<pid_t> pythons;
  Descriptors descriptors;
  for (const pid_t pid : descriptors.Processes()) {
    const auto maps = ReadFile("/proc/" + std::to_string(pid) + "/maps");
    if (maps.ok() && maps->find("python") != std::string::npos) pythons.push_back(pid);
  }
  return pythons;
}

Result<Answer> Explain(const std::vector<pid_t>& pids) {
  Answer answer;
  answer.is_about_one = pids.size() == 1;
  Investigation investigation;
  std::vector<std::size_t> starts;
  for (const pid_t pid : pids) {
    auto readable = CheckReadable(pid);
    if (!readable.ok() && answer.is_about_one) return std::move(readable.error());
    if (!readable.ok()) continue;
    starts.push_back(investigation.AddThread(pid, pid));
    PythonProcess* python = investigation.Python(pid);
    for (const PythonThread& thread : python != nullptr ? python->threads() : std::vector<PythonThread>{}) {
      const cpython::Frame* frame = UserFrame(thread.frames);
      if (thread.tid == 0 || thread.tid == pid || frame == nullptr || IsLibraryFile(frame->file)) continue;
      starts.push_back(investigation.AddThread(pid, thread.tid));
    }
  }
  investigation.Run();
  answer.graph = investigation.graph();
  answer.is_whole = !investigation.timed_out();
  answer.causes = GroupByCause(answer.graph, starts);
  // The main thread of the only process is always of interest, others when they wait.
  const auto is_asked_for = [&](const Cause& cause) {
    return answer.is_about_one && std::ranges::find(cause.waiting, starts.front()) != cause.waiting.end();
  };
  std::erase_if(answer.causes, [&](const Cause& cause) {
    return !is_asked_for(cause) && !IsWaitOfThread(answer.graph, cause.longest);
  });
  std::ranges::stable_partition(answer.causes, is_asked_for);
  return answer;
}

}  // namespace probing::why
