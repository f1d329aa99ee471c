#include "process/job_identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "process/launcher.h"
#include "process/live_environment.h"
#include "process/maps.h"
#include "process/status.h"

namespace probing::process {
namespace {

enum class Field : std::uint8_t { kJob, kRank, kWorldSize, kLocalRank, kNodeRank, kRestart, kOther };

// What a launcher calls it.
struct Variable {
  std::string_view name;
  Field field;
  std::string_view launcher;  // "": says nothing about who started the process
};

// Where agents of torchrun meet.
constexpr std::string_view kRendezvousVariable = "PET_RDZV_ENDPOINT";

// The order is the order of precedence. torch.distributed's names come first: whoever uses them, Ray
// and Kubernetes operators included, means them.
constexpr std::array kVariables{
    Variable{"PROBING_JOB", Field::kJob, ""},
    Variable{"RANK", Field::kRank, "torchrun"},
    Variable{"WORLD_SIZE", Field::kWorldSize, "torchrun"},
    Variable{"LOCAL_RANK", Field::kLocalRank, "torchrun"},
    Variable{"GROUP_RANK", Field::kNodeRank, "torchrun"},
    Variable{"NODE_RANK", Field::kNodeRank, ""},
    Variable{"TORCHELASTIC_RESTART_COUNT", Field::kRestart, "torchrun"},
    Variable{"TORCHELASTIC_RUN_ID", Field::kJob, "torchrun"},
    Variable{kRendezvousVariable, Field::kOther, ""},
    Variable{"LOCAL_WORLD_SIZE", Field::kOther, ""},
    Variable{"LOCAL_SIZE", Field::kOther, ""},
    Variable{"ROLE_NAME", Field::kOther, ""},
    Variable{"ROLE_RANK", Field::kOther, ""},
    Variable{"MASTER_ADDR", Field::kOther, ""},
    Variable{"MASTER_PORT", Field::kOther, ""},
    Variable{"OMPI_COMM_WORLD_RANK", Field::kRank, "openmpi"},
    Variable{"OMPI_COMM_WORLD_SIZE", Field::kWorldSize, "openmpi"},
    Variable{"OMPI_COMM_WORLD_LOCAL_RANK", Field::kLocalRank, "openmpi"},
    Variable{"OMPI_COMM_WORLD_LOCAL_SIZE", Field::kOther, ""},
    Variable{"PMIX_RANK", Field::kRank, "pmi"},
    Variable{"PMI_RANK", Field::kRank, "pmi"},
    Variable{"PMI_SIZE", Field::kWorldSize, "pmi"},
    Variable{"MPI_LOCALRANKID", Field::kLocalRank, "pmi"},
    Variable{"MPI_LOCALNRANKS", Field::kOther, ""},
    Variable{"SLURM_PROCID", Field::kRank, "slurm"},
    Variable{"SLURM_NTASKS", Field::kWorldSize, "slurm"},
    Variable{"SLURM_LOCALID", Field::kLocalRank, "slurm"},
    Variable{"SLURM_NODEID", Field::kNodeRank, "slurm"},
    Variable{"SLURM_RESTART_COUNT", Field::kRestart, "slurm"},
    Variable{"SLURM_JOB_ID", Field::kJob, "slurm"},
    Variable{"SLURM_JOB_NODELIST", Field::kOther, ""},
    Variable{"PBS_JOBID", Field::kJob, ""},
    Variable{"LSB_JOBID", Field::kJob, ""},
    Variable{"PMIX_NAMESPACE", Field::kJob, ""},
    Variable{"PMI_JOBID", Field::kJob, "pmi"},
    Variable{"RAY_JOB_ID", Field::kJob, "ray"},
    Variable{"JOB_COMPLETION_INDEX", Field::kRank, "kubernetes"},
};

constexpr std::size_t kMaxTitleBytes = 200;

// There is no agreement on these; the names are those that frameworks and recipes use.
struct ParallelVariable {
  std::string_view name;
  std::string_view role;
};
constexpr std::array kParallel{
    ParallelVariable{"DP_RANK", "dp"},
    ParallelVariable{"DATA_PARALLEL_RANK", "dp"},
    ParallelVariable{"TP_RANK", "tp"},
    ParallelVariable{"TENSOR_PARALLEL_RANK", "tp"},
    ParallelVariable{"TENSOR_MODEL_PARALLEL_RANK", "tp"},
    ParallelVariable{"PP_RANK", "pp"},
    ParallelVariable{"PIPELINE_PARALLEL_RANK", "pp"},
    ParallelVariable{"PIPELINE_MODEL_PARALLEL_RANK", "pp"},
    ParallelVariable{"EP_RANK", "ep"},
    ParallelVariable{"EXPERT_PARALLEL_RANK", "ep"},
    ParallelVariable{"EXPERT_MODEL_PARALLEL_RANK", "ep"},
    ParallelVariable{"CP_RANK", "cp"},
    ParallelVariable{"CONTEXT_PARALLEL_RANK", "cp"},
};

std::optional<std::int64_t> Number(std::string_view text) {
  std::int64_t number = 0;
  if (!ParseNumber(text, number) || number < 0) return std::nullopt;
  return number;
}

std::optional<std::int64_t>* NumberOf(JobIdentity& identity, Field field) {
  switch (field) {
    case Field::kRank:
      return &identity.rank;
    case Field::kWorldSize:
      return &identity.world_size;
    case Field::kLocalRank:
      return &identity.local_rank;
    case Field::kNodeRank:
      return &identity.node_rank;
    case Field::kRestart:
      return &identity.restart;
    default:
      return nullptr;
  }
}

const std::string* Find(const JobIdentity& identity, std::string_view name) {
  for (const auto& [variable, value] : identity.variables) {
    if (variable == name) return &value;
  }
  return nullptr;
}

void Understand(JobIdentity& identity, const Variable& variable, const std::string& value) {
  // torchrun's own default; Slurm's number or the address below tell more.
  if (variable.field == Field::kJob && identity.job.empty() && value != "none") identity.job = value;
  std::optional<std::int64_t>* number = NumberOf(identity, variable.field);
  if (number == nullptr || number->has_value() || !Number(value)) return;
  *number = Number(value);
  if (variable.field == Field::kRank) identity.launcher = variable.launcher;
}

// Open MPI and PMI name every job by a number; Ray counts those of a cluster.
bool IsNumbered(std::string_view variable) {
  return variable == "PMIX_NAMESPACE" || variable == "PMI_JOBID" || variable == "RAY_JOB_ID";
}

// "VLLM::Worker_TP0", "sglang::scheduler_TP1", "ray::Actor.method": what a program has written over its
// command line. Its parallel ranks count where no variable says them.
void ReadTitle(JobIdentity& identity, pid_t pid, const std::string& proc_root) {
  const Result<std::string> line = ReadFile(proc_root + "/" + std::to_string(pid) + "/cmdline");
  if (!line.ok()) return;
  identity.title = TitleIn(*line);
  std::string_view rest = identity.title;
  while (!rest.empty()) {
    const std::string_view part = TakePart(rest, '_');
    for (const std::string_view role : {"dp", "tp", "pp", "ep", "cp"}) {
      if (part.size() < 3 || LowerCase(part.substr(0, 2)) != role || !Number(part.substr(2))) continue;
      const bool known =
          std::ranges::any_of(identity.parallel, [&](const auto& each) { return each.first == role; });
      if (!known) identity.parallel.emplace_back(role, *Number(part.substr(2)));
    }
  }
}

// The variables that say something: those the process was started with, or, when they have no rank and torch
// is there, those it has now.
JobIdentity ReadVariables(pid_t pid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid);
  const Result<std::string> environment = ReadFile(folder + "/environ");
  if (!environment.ok()) return ParseJobIdentity("");
  JobIdentity identity = ParseJobIdentity(*environment);
  if (identity.rank || proc_root != "/proc" || !RunsPython(pid, proc_root)) return identity;
  const Result<Maps> maps = Maps::Read(pid, proc_root);
  const auto is_torch = [](const Mapping& mapping) { return BaseName(mapping.path).starts_with("libtorch"); };
  if (!maps.ok() || std::ranges::none_of(maps->all(), is_torch)) return identity;
  const Result<std::string> now = LiveEnvironment(ProcessMemory(pid), *maps);
  return now.ok() ? ParseJobIdentity(*now) : identity;
}

// The parent that does the same rank's work: then this is a helper of it. 0 for none.
pid_t FindRankAbove(pid_t pid, const JobIdentity& identity, const std::string& proc_root) {
  for (int depth = 0; depth < 16; ++depth) {
    const Result<Status> status = ReadStatus(pid, proc_root);
    if (!status.ok() || status->parent <= 1) return 0;
    pid = status->parent;
    if (IsLauncher(pid, proc_root) || !RunsPython(pid, proc_root)) continue;
    const JobIdentity parent = ReadVariables(pid, proc_root);
    if (parent.variables.empty() &&
        access((proc_root + "/" + std::to_string(pid) + "/environ").c_str(), R_OK) != 0)
      return 0;
    if (parent.rank == identity.rank && parent.launcher == identity.launcher && parent.job == identity.job)
      return pid;
  }
  return 0;
}

std::string MeetingPoint(const JobIdentity& identity) {
  const std::string* address = Find(identity, "MASTER_ADDR");
  const std::string* port = Find(identity, "MASTER_PORT");
  return address != nullptr && port != nullptr ? *address + ":" + *port : "";
}

bool IsOnOneHost(const JobIdentity& identity) {
  if (identity.world_size == 1) return true;
  for (const std::string_view name :
       {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_SIZE"}) {
    const std::string* size = Find(identity, name);
    if (size != nullptr && identity.world_size && Number(*size) == identity.world_size) return true;
  }
  const std::string* address = Find(identity, "MASTER_ADDR");
  return address != nullptr && (*address == "localhost" || *address == "127.0.0.1" || *address == "::1");
}

}  // namespace

bool RunsPython(pid_t pid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid);
  const Result<std::string> program = ReadLink(folder + "/exe");
  if (program.ok() && BaseName(*program).starts_with("python")) return true;
  const Result<std::string> maps = ReadFile(folder + "/maps");
  return maps.ok() &&
         (maps->find("/libpython3") != std::string::npos || maps->find("/python3") != std::string::npos);
}

const char* JobRoleName(JobRole role) {
  switch (role) {
    case JobRole::kNone:
      return "";
    case JobRole::kRank:
      return "rank";
    case JobRole::kWorker:
      return "worker";
    case JobRole::kLauncher:
      return "launcher";
  }
  return "";
}

std::string TitleIn(std::string_view command_line) {
  const std::string_view first = TakePart(command_line, '\0');
  const std::string_view title = first.substr(0, first.find_last_not_of(' ') + 1);
  const std::size_t colons = title.find("::");
  if (colons == 0 || colons == std::string_view::npos || title.size() > kMaxTitleBytes) return "";
  const auto is_word = [](char c) { return Lower(c) >= 'a' && Lower(c) <= 'z'; };
  return std::ranges::all_of(title.substr(0, colons), is_word) ? std::string(title) : "";
}

JobIdentity ParseJobIdentity(std::string_view environment) {
  JobIdentity found;  // as the environment has them
  while (!environment.empty()) {
    const std::string_view entry = TakePart(environment, '\0');
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    found.variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  JobIdentity identity;
  for (const Variable& variable : kVariables) {
    const std::string* value = Find(found, variable.name);
    if (value == nullptr) continue;
    identity.variables.emplace_back(variable.name, *value);
    Understand(identity, variable, *value);
  }
  for (const ParallelVariable& variable : kParallel) {
    const std::string* value = Find(found, variable.name);
    if (value == nullptr) continue;
    identity.variables.emplace_back(variable.name, *value);
    const bool known =
        std::ranges::any_of(identity.parallel, [&](const auto& each) { return each.first == variable.role; });
    if (!known && Number(*value)) identity.parallel.emplace_back(variable.role, *Number(*value));
  }
  if (identity.rank) identity.role = JobRole::kRank;
  // Ray Train's workers have torch's names for their ranks.
  if (identity.rank && Find(identity, "RAY_JOB_ID") != nullptr &&
      Find(identity, "TORCHELASTIC_RUN_ID") == nullptr)
    identity.launcher = "ray";
  if (identity.job.empty()) {
    // Two jobs that were started without a name differ by the address their ranks meet at.
    if (identity.rank) identity.job = MeetingPoint(identity);
    if (identity.job.empty()) identity.job = "local";
  }
  return identity;
}

void NameJob(JobIdentity& identity, pid_t rank, const std::string& proc_root) {
  // What people or a batch system have chosen stays.
  const std::string* given = nullptr;
  for (const Variable& variable : kVariables) {
    if (variable.field != Field::kJob || given != nullptr) continue;
    given = Find(identity, variable.name);
    if (given != nullptr && *given == "none") given = nullptr;
    if (given != nullptr && !IsUuid(*given) && !IsNumbered(variable.name)) return;
  }
  std::string name;
  const std::string* ray = Find(identity, "RAY_JOB_ID");
  if (IsOnOneHost(identity) || ray != nullptr) name = NameByLauncher(rank, proc_root);
  if (name.empty() && ray != nullptr && given == ray) {
    // Other clusters count, too: where the ranks meet tells them apart.
    name = "ray-" + *ray;
    if (const std::string address = MeetingPoint(identity); !address.empty()) name += "-" + address;
  } else if (name.empty() && given != nullptr && IsUuid(*given)) {
    // Each host has a launcher of its own, and all have the same number.
    const std::string script = ScriptByLauncher(rank, proc_root);
    if (!script.empty()) name = script + "-" + given->substr(0, 8);
  }
  if (!name.empty()) identity.job = std::move(name);
}

JobIdentity ReadJobIdentity(pid_t pid, const std::string& proc_root) {
  JobIdentity identity = ReadVariables(pid, proc_root);
  ReadTitle(identity, pid, proc_root);
  if (identity.role == JobRole::kNone) return identity;
  pid_t rank = pid;
  if (IsLauncher(pid, proc_root)) {
    identity.role = JobRole::kLauncher;
    identity.rank.reset();
    identity.local_rank.reset();
  } else if (const pid_t above = FindRankAbove(pid, identity, proc_root); above != 0) {
    identity.role = JobRole::kWorker;
    rank = above;
  } else if (identity.launcher == "torchrun" && Find(identity, kRendezvousVariable) == nullptr) {
    // torchrun takes it as this variable, too; as an option only itself knows it.
    const Result<Status> status = ReadStatus(pid, proc_root);
    std::string endpoint = status.ok() ? RendezvousOf(status->parent, proc_root) : "";
    if (!endpoint.empty()) identity.variables.emplace_back(kRendezvousVariable, std::move(endpoint));
  }
  NameJob(identity, rank, proc_root);
  return identity;
}

std::vector<RankProcess> FindRanks(const std::string& proc_root) {
  std::vector<RankProcess> ranks;
  for (const pid_t pid : ListProcesses(proc_root)) {
    RankProcess found{pid, {}};
    found.identity = ReadJobIdentity(found.pid, proc_root);
    if (found.identity.role == JobRole::kRank && RunsPython(found.pid, proc_root))
      ranks.push_back(std::move(found));
  }
  std::ranges::sort(ranks, [](const RankProcess& a, const RankProcess& b) {
    return std::tie(a.identity.job, a.identity.rank, a.pid) <
           std::tie(b.identity.job, b.identity.rank, b.pid);
  });
  return ranks;
}

}  // namespace probing::process
