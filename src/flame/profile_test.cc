#include "flame/profile.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "flame/interval.h"
#include "flame/ranking.h"

namespace probing::flame {
namespace {

constexpr std::int64_t kPeriodNs = 1000;

std::vector<Frame> StackOf(const std::string& innermost) {
  return {{FrameKind::kPython, innermost, "a.py", 1, 1}, {FrameKind::kPython, "main", "a.py", 2, 1}};
}

Sample At(int tick, ThreadId thread, std::uint32_t ticks = 1) {
  return {tick * kPeriodNs, ticks, thread, 0, true, false};
}

TEST(Profile, EqualStacksAreStoredOnce) {
  Profile profile(kPeriodNs, {});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  for (int i = 0; i < 100; ++i) profile.AddSample(At(i, thread), StackOf(i % 2 == 0 ? "even" : "odd"));
  EXPECT_EQ(profile.frames().size(), 3U);
  EXPECT_EQ(profile.stacks().size(), 4U);
  EXPECT_EQ(profile.samples().size(), 100U);
}

TEST(Profile, ASampleThatGoesOnGrowsAndAGapStartsANewOne) {
  Profile profile(kPeriodNs, {});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  profile.AddSample(At(0, thread), StackOf("f"));
  profile.RepeatSample(At(1, thread));
  profile.RepeatSample(At(2, thread, 3));
  profile.RepeatSample(At(7, thread));
  ASSERT_EQ(profile.samples().size(), 2U);
  EXPECT_EQ(profile.samples()[0].ticks, 5U);
  EXPECT_EQ(profile.samples()[1].start_ns, 7 * kPeriodNs);
  EXPECT_EQ(profile.FramesOf(profile.samples()[1].stack).size(), 2U);
}

TEST(Profile, TheOldestSamplesMakeRoomAndAreCounted) {
  Profile profile(kPeriodNs, {.samples = 10, .table_bytes = 1 << 20});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  for (int i = 0; i < 25; ++i) profile.AddSample(At(i, thread), StackOf(std::to_string(i)));
  EXPECT_EQ(profile.samples().size(), 10U);
  EXPECT_EQ(profile.samples().front().start_ns, 15 * kPeriodNs);
  EXPECT_EQ(profile.losses().dropped, 15U);
}

TEST(Profile, NamesWithoutEndStayWithinTheLimit) {
  Profile profile(kPeriodNs, {.samples = 1 << 20, .table_bytes = 100'000});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  for (int i = 0; i < 10'000; ++i) {
    profile.AddSample(At(i, thread), StackOf("generated_" + std::to_string(i)));
    ASSERT_LT(profile.frames().size(), 1200U);
  }
  EXPECT_GT(profile.losses().dropped, 0U);
  const Sample& last = profile.samples().back();
  EXPECT_EQ(profile.frames()[profile.FramesOf(last.stack).back()].function, "generated_9999");
}

TEST(Profile, APartHasWhatHappenedThenAndNoMore) {
  Profile profile(kPeriodNs, {});
  const ThreadId busy = profile.AddThread({1, 1, "a", "p"}), asleep = profile.AddThread({1, 2, "b", "p"});
  profile.AddSample(At(0, asleep, 100), StackOf("sleep"));
  for (int i = 0; i < 100; ++i) profile.AddSample(At(i, busy), StackOf(i < 50 ? "early" : "late"));
  const Profile part = Between(profile, 40 * kPeriodNs, 60 * kPeriodNs);
  std::map<std::string, std::uint32_t> ticks;
  for (const Sample& sample : part.samples()) {
    EXPECT_GE(sample.start_ns, 40 * kPeriodNs);
    ticks[part.frames()[part.FramesOf(sample.stack).back()].function] += sample.ticks;
  }
  EXPECT_EQ(ticks, (std::map<std::string, std::uint32_t>{{"early", 10}, {"late", 10}, {"sleep", 20}}));
  EXPECT_TRUE(Between(profile, 100 * kPeriodNs, 200 * kPeriodNs).samples().empty());
  EXPECT_TRUE(Between(profile, -100, 0).samples().empty());
}

// The default of probing.sample_memory, the default rate.
TEST(Profile, TenMinutesOfFiftyBusyThreadsFit) {
  Profile profile(100'000'000, Profile::Limits::Within(22 << 20));
  std::vector<ThreadId> threads;
  for (int i = 0; i < 50; ++i) threads.push_back(profile.AddThread({1, i, "a", "p"}));
  for (int tick = 0; tick < 6000; ++tick) {
    for (const ThreadId thread : threads) {
      const int line = (tick * 7 + static_cast<int>(thread)) % 1000;
      profile.AddSample({tick * 100'000'000LL, 1, thread, 0, true, false},
                        {{FrameKind::kPython, "innermost", "/a/long/path/to/a/module.py", line, 1},
                         {FrameKind::kPython, "main", "a.py", 2, 1}});
    }
  }
  EXPECT_EQ(profile.losses().dropped, 0U);
  EXPECT_EQ(profile.samples().size(), 300'000U);
}

TEST(Profile, AThreadThatSleepsTakesOneSampleHoweverLong) {
  Profile profile(kPeriodNs, {});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  profile.AddSample(At(0, thread), StackOf("sleep"));
  for (int i = 1; i < 6000; ++i) profile.RepeatSample(At(i, thread));
  EXPECT_EQ(profile.samples().size(), 1U);
  EXPECT_EQ(profile.samples().front().ticks, 6000U);
}

TEST(Profile, ThreadsThatEndedGiveTheirPlaceAwayOnceNoSampleNeedsIt) {
  Profile profile(kPeriodNs, {.samples = 5, .table_bytes = 1 << 20});
  for (int i = 0; i < 1000; ++i) {
    const ThreadId thread = profile.AddThread({1, i, "a", "p"});
    profile.AddSample(At(i, thread), StackOf("f"));
    profile.EndThread(thread);
  }
  EXPECT_LT(profile.threads().size(), 10U);
  EXPECT_EQ(profile.threads()[profile.samples().back().thread].tid, 999);
}

TEST(Ranking, ARecursiveFunctionCountsOnceAndOnlyTheTimeAskedForCounts) {
  Profile profile(kPeriodNs, {});
  const ThreadId thread = profile.AddThread({1, 1, "a", "p"});
  std::vector<Frame> recursive = StackOf("f");
  recursive.push_back(recursive.front());
  profile.AddSample(At(0, thread, 6), recursive);
  profile.AddSample(At(6, thread, 2), StackOf("g"));
  const Ranking ranking = Rank(profile, {}, 2 * kPeriodNs, 8 * kPeriodNs);
  ASSERT_EQ(ranking.functions.size(), 3U);
  EXPECT_EQ(ranking.functions[0].function.function, "f");
  EXPECT_EQ(ranking.functions[0].own, 4U);
  EXPECT_EQ(ranking.functions[0].total, 4U);
  EXPECT_EQ(ranking.functions[2].function.function, "main");
  EXPECT_EQ(ranking.functions[2].own, 0U);
  EXPECT_EQ(ranking.functions[2].total, 6U);
  EXPECT_EQ(ranking.on_cpu, 6U);
  EXPECT_EQ(ranking.threads.size(), 1U);
}

TEST(View, FilesOfPackagesKeepTheirPackage) {
  EXPECT_EQ(ShortFile("/v/lib/python3.11/site-packages/torch/nn/a.py"), "torch/nn/a.py");
  EXPECT_EQ(ShortFile("/usr/lib/python3.11/json/decoder.py"), "json/decoder.py");
  EXPECT_EQ(ShortFile("/job/train.py"), "train.py");
  EXPECT_EQ(ShortFile("<string>"), "<string>");
}

}  // namespace
}  // namespace probing::flame
