#include "observe/nccl/ras_status.h"

#include <gtest/gtest.h>

#include "observe/nccl/ras_client.h"

namespace probing::observe {
namespace {

std::string Rank(int rank, int launched, const char* more = "") {
  const std::string number = std::to_string(rank);
  return R"({"rank": )" + number + R"(, "host": "10.0.0.1", "pid": 10)" + number + R"(, "cuda_dev": )" +
         number + R"(, "nvml_dev": 0, "status": {"init_state": 0, "async_error": )" +
         (*more != 0 ? more : "0") +
         R"(, "finalize_called": false, "destroy_flag": false, "abort_flag": false},
            "collective_counts": {"AllReduce": )" +
         std::to_string(launched) + R"(, "Broadcast": 3}})";
}

std::string Status(const std::string& ranks, int count, int size) {
  return R"({"nccl_version": "2.28.3", "communicators": [{"hash": "0x1f", "size": )" + std::to_string(size) +
         R"(, "ranks_count": )" + std::to_string(count) + R"(, "missing_ranks_count": 0, "ranks": [)" +
         ranks + R"(], "missing_ranks": []}], "ras": {"timeouts_count": 0}})";
}

TEST(RasStatus, RanksAreComparedWithTheFurthest) {
  const auto status = ParseRasStatus(Status(Rank(0, 66) + "," + Rank(1, 64) + "," + Rank(2, 66), 3, 3));
  ASSERT_TRUE(status.ok()) << status.error().message;
  const RasCommunicator& comm = status->communicators.at(0);
  EXPECT_EQ(comm.errors, "MISMATCH");
  EXPECT_EQ(comm.status, "RUNNING");
  EXPECT_EQ(comm.ranks.at(1).behind, 2);
  EXPECT_EQ(comm.ranks.at(1).op, "AllReduce");
  EXPECT_EQ(comm.ranks.at(0).behind, 0);
  EXPECT_EQ(comm.ranks.at(0).launched, 69);
}

TEST(RasStatus, AnErrorOfARankIsNamed) {
  const auto status = ParseRasStatus(Status(Rank(0, 1, "6") + "," + Rank(1, 1), 2, 2));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->communicators.at(0).errors, "ERROR");
  EXPECT_EQ(status->communicators.at(0).ranks.at(0).error, "Remote process error");
}

TEST(RasStatus, WhatContradictsItselfIsRefused) {
  for (const std::string& text :
       {Status(Rank(0, 1), 2, 2), Status(Rank(2, 1), 1, 2), Status(Rank(0, 1) + "," + Rank(0, 1), 2, 2),
        Status(Rank(0, -1), 1, 2), Status(Rank(0, 1), 1, 0), std::string("{}"), std::string("[]"),
        std::string("")}) {
    EXPECT_FALSE(ParseRasStatus(text).ok()) << text;
  }
}

constexpr std::string_view kText =
    "NCCL version 2.24.3 compiled with CUDA 12.8\n\nCommunicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         2       4-8        12        12   RUNNING  INCOMPLETE,MISMATCH\n"
    "    1         2         1         4         4         8   RUNNING      OK\n"
    "\nErrors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    "  Process 4711 on node 10.0.0.2 managing GPU 3\n\n"
    "#0-0 (00004a8c1d9e07b3) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    "  Rank 11 -- GPU 3 (NVML 7) managed by process 4711 on node 10.0.0.2\n\n"
    "Warnings\n========\n\nTIMEOUT\n  Encountered 2 communication timeouts while gathering communicator "
    "data\n\n"
    "#0-0 (00004a8c1d9e07b3) MISMATCH\n  Communicator ranks have different collective operation counts\n"
    "  9 ranks have launched up to operation 100\n  2 ranks have not launched any operations\n"
    "  Rank 3 -- GPU 3 managed by process 13 on node 10.0.0.1\n"
    "  Rank 4 -- [process information not found]\n\n";

TEST(RasStatus, TextOfOlderVersionsNamesTheRanksThatDiffer) {
  const auto status = ParseRasStatus(kText);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->nccl_version, "2.24.3");
  EXPECT_EQ(status->timeouts, 2);
  ASSERT_EQ(status->communicators.size(), 3U);
  EXPECT_EQ(status->communicators[2].label, "#1-1");
  const RasCommunicator& comm = status->communicators[0];
  EXPECT_EQ(comm.hash, "0x4a8c1d9e07b3");
  ASSERT_EQ(comm.ranks.size(), 3U);
  EXPECT_EQ(comm.ranks[0].status, "DEAD");
  EXPECT_EQ(comm.ranks[0].process, 4711);
  EXPECT_EQ(comm.ranks[1].behind, 100);
  EXPECT_EQ(comm.ranks[1].launched, 0);
  EXPECT_EQ(comm.ranks[1].node, "10.0.0.1");
  EXPECT_EQ(comm.ranks[2].comm_rank, 4);
  EXPECT_FALSE(comm.ranks[2].process.has_value());
}

TEST(RasStatus, TextThatSpeaksOfWhatItDoesNotListIsRefused) {
  std::string text(kText);
  text.replace(text.find("Rank 11 "), 8, "Rank 12 ");
  EXPECT_FALSE(ParseRasStatus(text).ok());
  text = kText;
  text.replace(text.find("#0-0"), 4, "#9-9");
  EXPECT_FALSE(ParseRasStatus(text).ok());
  EXPECT_FALSE(ParseRasStatus("NCCL version 2.24.3\nnothing else\n").ok());
}

TEST(RasAddress, IsOfTheEnvironment) {
  using namespace std::string_literals;
  EXPECT_EQ(ParseRasAddress("A=1\0"s)->value().ToText(), "localhost:28028");
  EXPECT_EQ(ParseRasAddress("NCCL_RAS_ADDR=[::1]:77\0B=2\0"s)->value().ToText(), "[::1]:77");
  EXPECT_FALSE(ParseRasAddress("NCCL_RAS_ENABLE=0\0"s)->has_value());
  for (const char* wrong : {"host.example:1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", ":1", "1.2.3:4"})
    EXPECT_FALSE(ParseRasAddress("NCCL_RAS_ADDR="s + wrong).ok()) << wrong;
  EXPECT_TRUE(IsLocalAddress("127.0.0.1"));
  EXPECT_FALSE(IsLocalAddress("192.0.2.1"));
  EXPECT_FALSE(IsLocalAddress("localhost"));
}

}  // namespace
}  // namespace probing::observe
