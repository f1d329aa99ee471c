#include "daemon/late_ranks.h"

#include <gtest/gtest.h>

namespace probing::daemon {
namespace {

constexpr std::int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

LateRanks::Arrival Came(pid_t pid, std::int64_t at_ms, std::size_t members = 0, std::int64_t seq = 7) {
  return {.job = "job",
          .group = "0",
          .op = "all_reduce",
          .seq = seq,
          .members = members,
          .at_ns = at_ms * kMs,
          .who = {pid, 1},
          .rank = "rank " + std::to_string(pid)};
}

TEST(LateRanks, TheLastOneIsLateOnceAllHaveCome) {
  LateRanks ranks;
  ranks.Add(Came(0, 100, 3), 0);
  ranks.Add(Came(2, 180, 3), 0);
  EXPECT_TRUE(ranks.Take(0, 50 * kMs).empty());
  ranks.Add(Came(1, 101, 3), 0);
  const auto late = ranks.Take(0, 50 * kMs);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].who.first, 2);
  EXPECT_EQ(late[0].first_ns, 100 * kMs);
  EXPECT_EQ(late[0].last_ns, 180 * kMs);
  EXPECT_EQ(late[0].why, "rank 2 came to all_reduce 7 of group 0 80 ms after the first of 3 ranks");
  EXPECT_TRUE(ranks.Take(10 * kSecond, 50 * kMs).empty());
}

TEST(LateRanks, OthersAreWaitedForWhereTheMembersAreNotKnown) {
  LateRanks ranks;
  ranks.Add(Came(0, 100), 0);
  ranks.Add(Came(1, 200), kSecond);
  EXPECT_TRUE(ranks.Take(2 * kSecond, 50 * kMs).empty());
  EXPECT_EQ(ranks.Take(4 * kSecond, 50 * kMs).size(), 1U);
}

TEST(LateRanks, WithinTheLimitAloneOrAtAnotherOneNothingIsLate) {
  LateRanks ranks;
  ranks.Add(Came(0, 100, 2), 0);
  ranks.Add(Came(1, 149, 2), 0);
  ranks.Add(Came(0, 200, 2, 8), 0);
  ranks.Add(Came(1, 300, 2, 9), 0);
  EXPECT_TRUE(ranks.Take(10 * kSecond, 50 * kMs).empty());
}

TEST(LateRanks, WhatNeverEndsIsForgotten) {
  LateRanks ranks;
  for (int seq = 0; seq < 100'000; ++seq) ranks.Add(Came(0, 100, 2, seq), 0);
  ranks.Add(Came(1, 1000, 2, 5), 0);
  EXPECT_EQ(ranks.Take(0, 50 * kMs).size(), 1U);
  EXPECT_TRUE(ranks.Take(10 * kSecond, 50 * kMs).empty());
  ranks.Add(Came(0, 100, 2, 100'001), 0);
  ranks.Add(Came(1, 1000, 2, 100'001), 0);
  EXPECT_EQ(ranks.Take(10 * kSecond, 50 * kMs).size(), 1U);
}

}  // namespace
}  // namespace probing::daemon
