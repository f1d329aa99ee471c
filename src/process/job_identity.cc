#include "process/job_identity.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
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
    Variable{"ROLE_NAME", Field::kOther, ""},
    Variable{"ROLE_RANK", Field::kOther, ""},
    Variable{"MASTER_ADDR", Field::kOther, ""},
    Variable{"MASTER_PORT", Field::kOther, ""},
    Variable{"OMPI_COMM_WORLD_RANK", Field::kRank, "openmpi"},
    Variable{"OMPI_COMM_WORLD_SIZE", Field::kWorldSize, "openmpi"},
    Variable{"OMPI_COMM_WORLD_LOCAL_RANK", Field::kLocalRank, "openmpi"},
    Variable{"PMIX_RANK", Field::kRank, "pmi"},
    Variable{"PMI_RANK", Field::kRank, "pmi"},
    Variable{"PMI_SIZE", Field::kWorldSize, "pmi"},
    Variable{"MPI_LOCALRANKID", Field::kLocalRank, "pmi"},
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

// Programs that pass their variables on to what they start. Under Slurm torchrun itself has a rank.
constexpr std::array<std::string_view, 15> kLaunchers{"torchrun",
                                                      "torch.distributed.run",
                                                      "torch.distributed.launch",
                                                      "deepspeed.launcher.launch",
                                                      "accelerate",
                                                      "deepspeed",
                                                      "horovodrun",
                                                      "mpirun",
                                                      "mpiexec",
                                                      "mpiexec.hydra",
                                                      "srun",
                                                      "slurmstepd",
                                                      "orted",
                                                      "prted",
                                                      "raylet"};
// The same, as the first word of a command line only.
constexpr std::array<std::string_view, 12> kWrappers{
    "sh", "bash", "dash", "zsh", "ksh", "env", "time", "timeout", "numactl", "taskset", "nice", "stdbuf"};

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

// By the words of its command line: "torchrun", "python -m torch.distributed.run". Words behind the
// program's own belong to what it starts.
bool IsLauncher(pid_t pid, const std::string& proc_root) {
  const Result<std::string> line = ReadFile(proc_root + "/" + std::to_string(pid) + "/cmdline");
  if (!line.ok()) return false;
  std::string_view rest = *line;
  const auto known = [](std::string_view word) {
    return std::ranges::find(kLaunchers, BaseName(word)) != kLaunchers.end();
  };
  const std::string_view program = BaseName(TakePart(rest, '\0'));
  if (known(program) || std::ranges::find(kWrappers, program) != kWrappers.end()) return true;
  while (!rest.empty()) {
    const std::string_view word = TakePart(rest, '\0');
    if (word == "-m") return known(TakePart(rest, '\0'));
    if (!word.starts_with('-')) return known(word);
  }
  return false;
}

// What torchrun was told by --rdzv-endpoint, as one word or two; "" when it was not.
std::string RendezvousOf(pid_t pid, const std::string& proc_root) {
  const Result<std::string> line = ReadFile(proc_root + "/" + std::to_string(pid) + "/cmdline");
  std::string_view rest = line.ok() ? std::string_view(*line) : "";
  while (!rest.empty()) {
    std::string_view value = TakePart(rest, '\0');
    const std::string_view option = TakePart(value, '=');
    if (option != "--rdzv-endpoint" && option != "--rdzv_endpoint") continue;
    return std::string(value.empty() ? TakePart(rest, '\0') : value);
  }
  return "";
}

// Not by its name: `exec -a`, conda and ld.so call it differently.
bool IsPython(pid_t pid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid);
  const Result<std::string> program = ReadLink(folder + "/exe");
  if (program.ok() && BaseName(*program).starts_with("python")) return true;
  const Result<std::string> maps = ReadFile(folder + "/maps");
  return maps.ok() &&
         (maps->find("/libpython3") != std::string::npos || maps->find("/python3") != std::string::npos);
}

// A parent that does the same rank's work: then this is a helper of it.
bool HasRankAbove(pid_t pid, const JobIdentity& identity, const std::string& proc_root) {
  for (int depth = 0; depth < 16; ++depth) {
    const Result<Status> status = ReadStatus(pid, proc_root);
    if (!status.ok() || status->parent <= 1) return false;
    pid = status->parent;
    if (IsLauncher(pid, proc_root) || !IsPython(pid, proc_root)) continue;
    const Result<std::string> environment = ReadFile(proc_root + "/" + std::to_string(pid) + "/environ");
    if (!environment.ok()) return false;
    const JobIdentity parent = ParseJobIdentity(*environment);
    if (parent.rank == identity.rank && parent.launcher == identity.launcher && parent.job == identity.job)
      return true;
  }
  return false;
}

}  // namespace

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
  if (identity.job.empty()) {
    // Two jobs that were started without a name differ by the address their ranks meet at.
    const std::string* address = Find(identity, "MASTER_ADDR");
    const std::string* port = Find(identity, "MASTER_PORT");
    identity.job = identity.rank && address != nullptr && port != nullptr ? *address + ":" + *port : "local";
  }
  return identity;
}

JobIdentity ReadJobIdentity(pid_t pid, const std::string& proc_root) {
  const Result<std::string> environment = ReadFile(proc_root + "/" + std::to_string(pid) + "/environ");
  JobIdentity identity = ParseJobIdentity(environment.ok() ? std::string_view(*environment) : "");
  if (identity.role == JobRole::kNone) return identity;
  if (IsLauncher(pid, proc_root)) {
    identity.role = JobRole::kLauncher;
    identity.rank.reset();
    identity.local_rank.reset();
  } else if (HasRankAbove(pid, identity, proc_root)) {
    identity.role = JobRole::kWorker;
  } else if (identity.launcher == "torchrun" && Find(identity, kRendezvousVariable) == nullptr) {
    // torchrun takes it as this variable, too; as an option only itself knows it.
    const Result<Status> status = ReadStatus(pid, proc_root);
    std::string endpoint = status.ok() ? RendezvousOf(status->parent, proc_root) : "";
    if (!endpoint.empty()) identity.variables.emplace_back(kRendezvousVariable, std::move(endpoint));
  }
  return identity;
}

std::vector<RankProcess> FindRanks(const std::string& proc_root) {
  std::vector<RankProcess> ranks;
  const Result<std::vector<std::string>> names = ListDirectory(proc_root);
  if (!names.ok()) return ranks;
  for (const std::string& name : *names) {
    const std::optional<std::int64_t> pid = IsNumber(name) ? Number(name) : std::nullopt;
    if (!pid) continue;
    RankProcess found{static_cast<pid_t>(*pid), {}};
    found.identity = ReadJobIdentity(found.pid, proc_root);
    if (found.identity.role == JobRole::kRank && IsPython(found.pid, proc_root))
      ranks.push_back(std::move(found));
  }
  std::ranges::sort(ranks, [](const RankProcess& a, const RankProcess& b) {
    return std::tie(a.identity.job, a.identity.rank, a.pid) <
           std::tie(b.identity.job, b.identity.rank, b.pid);
  });
  return ranks;
}

}  // namespace probing::process
