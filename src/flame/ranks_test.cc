#include "flame/ranks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "flame/formats.h"
#include "flame/tree.h"

namespace probing::flame {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Frame Function(std::string name) { return {FrameKind::kPython, std::move(name), "/job/train.py", 7, 7}; }

// Ten ticks of train, of which so many are in forward and the rest in wait.
Profile OfRank(std::int64_t rank, pid_t pid, int forward, std::int64_t start_ns = 0) {
  Profile profile(10 * kMs, {});
  const ThreadId thread = profile.AddThread({pid, pid, "python", "train.py", rank});
  for (int i = 0; i < 10; ++i) {
    const Frame inner = Function(i < forward ? "forward" : "wait");
    profile.AddSample({start_ns + i * 10 * kMs, 1, thread, 0, true, true}, {inner, Function("train")});
  }
  return profile;
}

Profile OfJob() {
  const Profile zero = OfRank(0, 100, 5), one = OfRank(1, 100, 5), two = OfRank(2, 102, 8);
  return Merge({{&zero}, {&one}, {&two}}, {});
}

TEST(Ranges, AreWrittenAsPeopleDo) {
  EXPECT_EQ(Ranges({}), "");
  EXPECT_EQ(Ranges({0, 1, 2, 5}), "0-2, 5");
  EXPECT_EQ(Ranges({3, 4}), "3, 4");
  EXPECT_EQ(Ranges({INT64_MIN, INT64_MAX}), std::to_string(INT64_MIN) + ", " + std::to_string(INT64_MAX));
}

TEST(ParseRanks, TakesNumbersAndRanges) {
  const auto ranks = [](std::string_view text) {
    const Result<Ranks> parsed = ParseRanks(text);
    return parsed.ok() ? *parsed : Ranks{-1};
  };
  EXPECT_EQ(ranks("3"), (Ranks{3}));
  EXPECT_EQ(ranks("0-2,4"), (Ranks{0, 1, 2, 4}));
  EXPECT_EQ(ranks("0-2, 4"), (Ranks{0, 1, 2, 4}));
  for (const char* wrong : {"", "x", "-1", "3-1", "1-", "1,,2", "0-99999999999", "1-2-3"})
    EXPECT_EQ(ranks(wrong), (Ranks{-1})) << wrong;
}

TEST(Merge, SamplesAreInTheOrderOfOneClock) {
  const Profile ours = OfRank(0, 1, 5, 1000 * kMs), theirs = OfRank(1, 2, 5, 5000 * kMs);
  const Profile merged = Merge({{&ours, 0}, {&theirs, 4000 * kMs}}, {});
  std::vector<std::int64_t> starts;
  for (const Sample& sample : merged.samples()) starts.push_back(sample.start_ns);
  EXPECT_TRUE(std::ranges::is_sorted(starts));
  EXPECT_EQ(starts.front(), 1000 * kMs);
  EXPECT_EQ(starts[1], starts[0]);
  EXPECT_EQ(RanksIn(merged), (Ranks{0, 1}));
}

TEST(Merge, ProcessesOfTwoHostsWithOnePidAreTwo) {
  const Profile job = OfJob();
  std::set<pid_t> pids;
  for (const Thread& thread : job.threads()) {
    pids.insert(thread.pid);
    EXPECT_EQ(thread.pid, thread.tid) << "it is still the main thread";
  }
  EXPECT_EQ(pids.size(), 3U);
  EXPECT_TRUE(pids.contains(100) && pids.contains(102));
}

const Box& BoxOf(const Tree& tree, const std::string& name) {
  for (const Box& box : tree.boxes) {
    if (tree.entries[box.entry].label.starts_with(name)) return box;
  }
  static const Box kNone;
  return kNone;
}

TEST(Tree, ABoxSaysWhichRanksWereInIt) {
  const Tree tree = BuildTree(OfJob(), {});
  EXPECT_EQ(BoxOf(tree, "train").ranks, "0-2");
  EXPECT_EQ(BoxOf(tree, "forward").ticks, 18U);
  EXPECT_FALSE(tree.is_compared);
  View only;
  only.ranks = {1};
  EXPECT_EQ(BoxOf(BuildTree(OfJob(), only), "forward").ticks, 5U);
  EXPECT_EQ(BoxOf(BuildTree(OfJob(), only), "forward").ranks, "1");
}

TEST(Tree, SharesAreComparedWithThoseOfTheOthers) {
  View view;
  view.ranks = {2};
  view.against = {0, 1};
  const Tree tree = BuildTree(OfJob(), view);
  EXPECT_TRUE(tree.is_compared);
  EXPECT_EQ(tree.total_ticks, 10U);
  EXPECT_NEAR(BoxOf(tree, "forward").change, 0.3, 1e-9);
  EXPECT_NEAR(BoxOf(tree, "wait").change, -0.3, 1e-9);
  EXPECT_EQ(BoxOf(tree, "train").change, 0);
  const std::string svg = ToSvg(OfJob(), view);
  EXPECT_NE(svg.find("forward (train.py:7) [0-2]: 8 samples, 80.00%, +30.00 points"), std::string::npos);
  EXPECT_NE(svg.find("class=\"f more5\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"f less5\""), std::string::npos);
}

TEST(View, RanksHaveGroupsOfTheirOwn) {
  View view;
  view.by_rank = true;
  view.ranks = {0, 2};
  EXPECT_EQ(ToCollapsed(OfJob(), view),
            "rank 0;train (train.py:7);forward (train.py:7) 5\n"
            "rank 0;train (train.py:7);wait (train.py:7) 5\n"
            "rank 2;train (train.py:7);forward (train.py:7) 8\n"
            "rank 2;train (train.py:7);wait (train.py:7) 2\n");
}

TEST(Html, ThePageKnowsRanksAndComparison) {
  View view;
  view.ranks = {2};
  view.against = {0, 1};
  const std::string html = ToHtml(OfJob(), view);
  const std::size_t start = html.find("id=\"data\">") + 10;
  const auto data =
      nlohmann::json::parse(html.substr(start, html.find("</script>", start) - start), nullptr, false);
  ASSERT_TRUE(data.is_object());
  EXPECT_EQ(data["threads"][2]["rank"], 2);
  EXPECT_EQ(data["ranks"], nlohmann::json::array({2}));
  EXPECT_EQ(data["against"], nlohmann::json::array({0, 1}));
  EXPECT_EQ(data["samples"]["weight"].size(), OfJob().samples().size()) << "all ranks: the page chooses";
}

}  // namespace
}  // namespace probing::flame
