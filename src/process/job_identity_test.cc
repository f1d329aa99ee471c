#include "process/job_identity.h"

#include <gtest/gtest.h>

#include "process/launcher.h"

namespace probing::process {
namespace {

// NAME=value separated by spaces, as /proc would have them.
JobIdentity Parse(std::string variables) {
  for (char& c : variables) c = c == ' ' ? '\0' : c;
  return ParseJobIdentity(variables);
}

TEST(JobIdentity, TorchrunSaysAll) {
  const JobIdentity found = Parse(
      "PATH=/bin RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 GROUP_RANK=2 TORCHELASTIC_RESTART_COUNT=3 "
      "TORCHELASTIC_RUN_ID=night MASTER_ADDR=a MASTER_PORT=29500");
  EXPECT_EQ(found.role, JobRole::kRank);
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(found.job, "night");
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.world_size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.node_rank, 2);
  EXPECT_EQ(found.restart, 3);
  EXPECT_EQ(found.variables.size(), 8U) << "what is not a launcher's is not kept";
}

TEST(JobIdentity, SlurmOpenMpiPmiAndKubernetesAreUnderstood) {
  const JobIdentity slurm = Parse(
      "SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_JOB_ID=77 SLURM_RESTART_COUNT=1");
  EXPECT_EQ(slurm.launcher, "slurm");
  EXPECT_EQ(slurm.job, "77");
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.world_size, 4);
  EXPECT_EQ(slurm.node_rank, 1);
  EXPECT_EQ(slurm.restart, 1);
  const JobIdentity openmpi = Parse(
      "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_NAMESPACE=p-1@1");
  EXPECT_EQ(openmpi.launcher, "openmpi");
  EXPECT_EQ(openmpi.job, "p-1@1");
  EXPECT_EQ(openmpi.rank, 1);
  const JobIdentity pmi = Parse("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1");
  EXPECT_EQ(pmi.launcher, "pmi");
  EXPECT_EQ(pmi.local_rank, 1);
  EXPECT_EQ(pmi.job, "local");
  EXPECT_EQ(Parse("JOB_COMPLETION_INDEX=6").rank, 6);
  EXPECT_EQ(Parse("RAY_JOB_ID=02000000 RANK=1").job, "02000000");
}

TEST(JobIdentity, TorchrunUnderSlurmHasTheRanksOfTorchrunAndTheJobOfSlurm) {
  const JobIdentity found =
      Parse("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=77 RANK=9 WORLD_SIZE=16 TORCHELASTIC_RUN_ID=none");
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(found.rank, 9);
  EXPECT_EQ(found.world_size, 16);
  EXPECT_EQ(found.job, "77");
}

TEST(JobIdentity, JobsWithoutANameDifferByTheirAddress) {
  EXPECT_EQ(Parse("RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none").job,
            "127.0.0.1:29500");
  EXPECT_EQ(Parse("RANK=0 PROBING_JOB=mine SLURM_JOB_ID=1").job, "mine");
  EXPECT_EQ(Parse("RANK=0").job, "local");
}

TEST(JobIdentity, ParallelRolesComeFromTheirUsualNames) {
  const JobIdentity found =
      Parse("RANK=1 TP_RANK=1 TENSOR_MODEL_PARALLEL_RANK=7 DATA_PARALLEL_RANK=0 PP_RANK=x");
  EXPECT_EQ(found.parallel, (std::vector<std::pair<std::string, std::int64_t>>{{"dp", 0}, {"tp", 1}}));
}

TEST(JobIdentity, RayTrainsWorkersAreOfRay) {
  EXPECT_EQ(Parse("RAY_JOB_ID=01000000 RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1").launcher, "ray");
  EXPECT_EQ(Parse("RAY_JOB_ID=01000000 RANK=1 TORCHELASTIC_RUN_ID=night").launcher, "torchrun");
}

TEST(JobIdentity, TitlesAreWhatProgramsWriteOverTheirCommandLines) {
  EXPECT_EQ(TitleIn(std::string_view("VLLM::EngineCore\0\0\0", 19)), "VLLM::EngineCore");
  EXPECT_EQ(TitleIn("ray::Actor.method      "), "ray::Actor.method");
  EXPECT_EQ(TitleIn("sglang::scheduler_TP1"), "sglang::scheduler_TP1");
  for (const char* text : {"", "python", "::x", "/bin/a::b", "a b::c", "python train.py a::b"})
    EXPECT_EQ(TitleIn(text), "") << text;
}

TEST(Launcher, ANumberThatALauncherDrewIsNoName) {
  EXPECT_TRUE(IsUuid("3f1c8b2e-0a4d-4C6e-9b1f-7d2e5a6c8b90"));
  for (const char* text : {"", "night-run", "3f1c8b2e-0a4d-4c6e-9b1f-7d2e5a6c8b9",
                           "3f1c8b2e0a4d4c6e9b1f7d2e5a6c8b900000", "3f1c8b2e-0a4d-4c6e-9b1f-7d2e5a6c8bxx"})
    EXPECT_FALSE(IsUuid(text)) << text;
}

TEST(JobIdentity, GarbageIsNoRank) {
  for (const char* text :
       {"", "RANK=", "RANK=x", "RANK=-1", "RANK=1x", "RANK", "=1", "XRANK=1", "RANK=99999999999999999999"}) {
    EXPECT_EQ(Parse(text).role, JobRole::kNone) << text;
    EXPECT_FALSE(Parse(text).rank) << text;
    EXPECT_EQ(Parse(text).job, "local") << text;
  }
}

}  // namespace
}  // namespace probing::process
