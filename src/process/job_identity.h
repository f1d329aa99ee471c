// Where a process stands in a distributed job, as its launcher told it.
//
// Launchers tell by environment variables, so this is read from outside, from the environment the
// process was started with; it needs no probe. Of a Python process with torch, what it has put into
// os.environ later counts, too, where the launcher said nothing (Ray Train, torch.multiprocessing.spawn).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace probing::process {

enum class JobRole : std::uint8_t {
  kNone,      // no launcher said anything
  kRank,      // does the work of a rank
  kWorker,    // a child of a rank that inherited its variables: a DataLoader's worker
  kLauncher,  // starts ranks and waits for them: torchrun, mpirun, a shell
};
const char* JobRoleName(JobRole role);  // "rank"; "" for kNone

struct JobIdentity {
  JobRole role = JobRole::kNone;
  std::string launcher;  // torchrun, slurm, openmpi, pmi, kubernetes, ray; "" for none
  // What people or a batch system called it; else the script, when it was started and its launcher's pid (see
  // NameByLauncher()); "local" when nothing is known.
  std::string job;
  std::string title;  // "VLLM::Worker_TP0": what the program calls itself; "" for a command line
  std::optional<std::int64_t> rank;  // never of a launcher
  std::optional<std::int64_t> world_size;
  std::optional<std::int64_t> local_rank;
  std::optional<std::int64_t> node_rank;
  std::optional<std::int64_t> restart;                         // 0 is the first start
  std::vector<std::pair<std::string, std::int64_t>> parallel;  // dp, tp, pp, ep, cp: rank in each group
  std::vector<std::pair<std::string, std::string>> variables;  // all of the above as it was found

  // The job's name; "" for a process that belongs to none.
  std::string JobName() const { return role == JobRole::kNone ? "" : job; }

  bool operator==(const JobIdentity&) const = default;
};

// Whether the program is a Python or has one in it. Not by its name: `exec -a`, conda and ld.so call it
// differently. False for one that may not be read.
bool RunsPython(pid_t pid, const std::string& proc_root = "/proc");

// By the variables alone: `role` is kRank when there is a rank. `environment` is as in /proc:
// NAME=value, each ended by a zero byte. The first launcher below that knows a value has the word:
// torchrun's ranks are what they say, also when Slurm started torchrun.
JobIdentity ParseJobIdentity(std::string_view environment);

// "VLLM::EngineCore" when a program has written such a name over its command line; else "".
std::string TitleIn(std::string_view command_line);

// Gives a job without a name that people chose one they understand. REQUIRES: `rank` does the work of a rank.
void NameJob(JobIdentity& identity, pid_t rank, const std::string& proc_root = "/proc");

// The same with a look at the process and its parents, which tells ranks from launchers and workers.
// A process that cannot be read has no identity.
JobIdentity ReadJobIdentity(pid_t pid, const std::string& proc_root = "/proc");

struct RankProcess {
  pid_t pid = 0;
  JobIdentity identity;
};

// The processes of this host that do the work of a rank and whose environment may be read, by job and
// rank. Programs that are not Python are left out.
std::vector<RankProcess> FindRanks(const std::string& proc_root = "/proc");

}  // namespace probing::process
