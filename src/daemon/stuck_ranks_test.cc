#include "daemon/stuck_ranks.h"

#include <gtest/gtest.h>

#include "daemon/findings.h"

namespace probing::daemon {
namespace {

using server::Json;

RankLook Waiting(std::int64_t rank, std::uint64_t wakes = 7) {
  return {.pid = static_cast<pid_t>(100 + rank),
          .rank = rank,
          .job = "train",
          .waits = true,
          .function = "backward (torch)",
          .place = "train (train.py:9), below backward (graph.py:1)",
          .wakes = wakes};
}

RankLook Elsewhere(std::int64_t rank, std::string function = "read (data.py)") {
  RankLook look = Waiting(rank);
  look.waits = false;
  look.function = std::move(function);
  look.place = "read (data.py:4)";
  return look;
}

TEST(StuckRanks, TheOneThatIsElsewhereIsNamed) {
  const RankLooks look{Waiting(0), Waiting(1), Elsewhere(2), Waiting(3)};
  const std::vector<StuckRanks> found = FindStuckRanks({look, look, look}, 5);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].ranks, std::vector<std::int64_t>{2});
  EXPECT_EQ(found[0].pids, std::vector<std::int64_t>{102});
  EXPECT_NE(found[0].evidence.find("3 of 4 ranks wait"), std::string::npos) << found[0].evidence;
  EXPECT_NE(found[0].evidence.find("rank 2 is in read (data.py:4)"), std::string::npos) << found[0].evidence;
}

TEST(StuckRanks, AStoreIsAskedAgainAndAgainUntilAllHaveMet) {
  RankLook early = Waiting(0, 7);
  RankLook later = Waiting(0, 700);
  early.is_meeting = later.is_meeting = true;
  EXPECT_EQ(FindStuckRanks({{early, Elsewhere(1)}, {later, Elsewhere(1)}}, 5).size(), 1U);
}

TEST(StuckRanks, AJobThatGoesOnHasNone) {
  const RankLooks one{Waiting(0, 7), Elsewhere(1)};
  EXPECT_TRUE(FindStuckRanks({one, {Waiting(0, 700), Elsewhere(1)}}, 5).empty()) << "it woke up in between";
  EXPECT_TRUE(FindStuckRanks({one, {Waiting(0), Elsewhere(1, "augment (data.py)")}}, 5).empty())
      << "it works";
  EXPECT_TRUE(FindStuckRanks({one, {Elsewhere(0), Elsewhere(1)}}, 5).empty());
  EXPECT_TRUE(FindStuckRanks({{Waiting(0), Waiting(1)}}, 5).empty()) << "a network may be slow";
  RankLook computes = Elsewhere(1);
  computes.is_busy = true;
  EXPECT_TRUE(FindStuckRanks({{Waiting(0), computes}}, 5).empty());
  EXPECT_TRUE(FindStuckRanks({one, {Waiting(0)}}, 5).empty()) << "it has ended";
}

Json Finding(const char* name, const char* rule, std::vector<int> ranks, const char* job = "train") {
  return {{"class", name}, {"rule", rule},          {"ranks", std::move(ranks)},
          {"job", job},    {"severity", "warning"}, {"evidence", "…"}};
}

TEST(Findings, WhatFollowsFromACauseIsPutBelowIt) {
  const std::vector<Json> folded = FoldFindings(
      {Finding("collective_hang", "collective_hang", {2}), Finding("hang", "hang_progress", {0}),
       Finding("first_death", "first_death", {2}), Finding("memory_growth", "memory_growth", {1})});
  ASSERT_EQ(folded.size(), 2U);
  EXPECT_EQ(folded[0]["class"], "first_death");
  EXPECT_EQ(folded[0]["also"].size(), 2U);
  EXPECT_EQ(folded[1]["class"], "memory_growth");
}

TEST(Findings, OfOtherRanksOrJobsNothingFollows) {
  EXPECT_EQ(
      FoldFindings({Finding("data_stall", "data_stall", {1}), Finding("straggler", "straggler", {2})}).size(),
      2U);
  EXPECT_EQ(FoldFindings({Finding("first_death", "first_death", {1}, "a"),
                          Finding("collective_hang", "collective_hang", {1}, "b")})
                .size(),
            2U);
}

TEST(Findings, ErrorsComeFirstAndThenTheOldest) {
  Json late = Finding("hang", "hang_kernel", {1});
  Json early = Finding("first_death", "first_death", {2}, "other");
  late["severity"] = early["severity"] = "error";
  late["since_ns"] = 20;
  early["since_ns"] = 10;
  const std::vector<Json> sorted = FoldFindings({Finding("nan", "nan", {0}), late, early});
  EXPECT_EQ(sorted[0]["class"], "first_death");
  EXPECT_EQ(sorted[2]["class"], "nan");
}

}  // namespace
}  // namespace probing::daemon
