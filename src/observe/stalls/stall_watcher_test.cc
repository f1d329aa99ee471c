#include "observe/stalls/stall_watcher.h"

#include <gtest/gtest.h>

#include "observe/stalls/user_frame.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kMs = 1'000'000;

flame::Frame At(const std::string& function, const std::string& file, int line = 1) {
  return {flame::FrameKind::kPython, function, file, line, 1};
}

std::string UserFunction(const std::vector<flame::Frame>& frames) {
  std::vector<const flame::Frame*> pointers;
  for (const flame::Frame& frame : frames) pointers.push_back(&frame);
  const auto at = FindUserFrame(pointers);
  return at ? frames[*at].function : "";
}

TEST(UserFrame, IsTheInnermostOutsideOfPackages) {
  EXPECT_EQ(UserFunction({At("main", "/a/train.py"), At("step", "/a/model.py"),
                          At("forward", "/v/lib/python3.11/site-packages/torch/nn/linear.py")}),
            "step");
  EXPECT_EQ(UserFunction({At("main", "/a/b.py"), At("get", "/usr/lib/python3.11/queue.py")}), "main");
}

TEST(UserFrame, IsNotWhatStartedTheEventLoop) {
  const auto loop = At("_run_once", "/usr/lib/python3.11/asyncio/base_events.py");
  EXPECT_EQ(UserFunction({At("main", "/a/b.py"), loop, At("handle", "/a/h.py")}), "handle");
  EXPECT_EQ(UserFunction({At("main", "/a/b.py"), loop, At("get", "/v/site-packages/x.py"),
                          At("read", "/usr/lib/python3.11/json/decoder.py")}),
            "get");
  EXPECT_EQ(UserFunction({}), "");
}

// Looks every 10 ms, from 0 on, each with one frame.
Trail MakeTrail(const std::vector<std::string>& functions) {
  Trail trail(1 << 20);
  std::int64_t at_ns = 1000 * kMs;
  for (const std::string& function : functions) {
    const std::vector<flame::Frame> frames{At(function, "/a/b.py")};
    at_ns += 10 * kMs;
    trail.Add(7, 7, "main", {.at_ns = at_ns, .on_cpu = true}, &frames);
  }
  return trail;
}

TEST(Trail, NamesWhatTookMostOfTheTime) {
  const Trail trail = MakeTrail({"a", "a", "b", "c", "c", "c"});
  Stall stall{.kind = "event_loop", .start_ns = 1020 * kMs, .duration_ns = 40 * kMs, .tid = 7};
  trail.Explain(stall, 0);
  EXPECT_EQ(stall.line.function, "c");
  EXPECT_EQ(stall.stack, "c (b.py:1)");
  EXPECT_EQ(stall.before, "a (b.py:1)");
  EXPECT_EQ(stall.thread_name, "main");
  ASSERT_GE(stall.parts.size(), 3U);
  EXPECT_LT(stall.parts.front().offset_ns, 0);
  EXPECT_EQ(stall.parts.back().stack, "c (b.py:1)");
}

TEST(Trail, NamesWhatIsNotUsual) {
  // Usual: "a" takes 20 ms of each step. Here it takes 30 ms, and "b" 20 ms that it never takes.
  std::vector<std::string> functions(40, "a");
  functions.insert(functions.end(), {"a", "a", "a", "b", "b"});
  const Trail trail = MakeTrail(functions);
  Stall stall{.kind = "step", .start_ns = 1400 * kMs, .duration_ns = 50 * kMs, .tid = 7};
  trail.Explain(stall, 20 * kMs);
  EXPECT_EQ(stall.line.function, "b");
  stall = {.kind = "step", .start_ns = 1400 * kMs, .duration_ns = 50 * kMs, .tid = 7};
  trail.Explain(stall, 0);
  EXPECT_EQ(stall.line.function, "a");
}

TEST(Trail, CountsAWaitForACpuThatIsOverWithTheStall) {
  Trail trail = MakeTrail({"a", "a"});
  Stall stall{.kind = "event_loop", .start_ns = 1020 * kMs, .duration_ns = 60 * kMs, .tid = 7};
  trail.AddWait(7, {.at_ns = 1020 * kMs, .waited_ns = 5 * kMs});
  trail.AddWait(7, {.at_ns = 1085 * kMs, .waited_ns = 55 * kMs});
  trail.AddWait(7, {.at_ns = 1200 * kMs, .waited_ns = 500 * kMs});
  trail.AddWait(8, {.at_ns = 1085 * kMs, .waited_ns = 55 * kMs});
  trail.Explain(stall, 0);
  EXPECT_EQ(stall.cpu_wait_ns, 50 * kMs);
}

TEST(Trail, KnowsThreadsThatHaveEnded) {
  Trail trail = MakeTrail({"a", "b", "b"});
  trail.End(7);
  EXPECT_TRUE(trail.Knows(7));
  Stall stall{.kind = "span", .start_ns = 1010 * kMs, .duration_ns = 20 * kMs, .tid = 7};
  trail.Explain(stall, 0);
  EXPECT_EQ(stall.line.function, "b");
}

TEST(Trail, IsBounded) {
  Trail trail(100'000);
  for (int i = 0; i < 100'000; ++i) {
    const std::vector<flame::Frame> frames{At("f" + std::to_string(i % 5000), "/a/b.py")};
    trail.Add(7, 7, "main", {.at_ns = (1000 + i * 10) * kMs}, &frames);
  }
  Stall stall{.kind = "span", .start_ns = 0, .duration_ns = 1'000'000 * kMs, .tid = 7};
  trail.Explain(stall, 0);
  EXPECT_LT(stall.looks, 2000);
  EXPECT_FALSE(stall.line.function.empty());
}

TEST(Pace, LooksTakeTheirShareAndNoMore) {
  Pace pace({.share = 0.02, .reserve_ns = 10 * kMs, .usual_ns = 20 * kMs, .close_ns = 4 * kMs});
  std::int64_t now_ns = 0, last_ns = 0, spent_ns = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t next_ns = pace.Next(last_ns, now_ns, 2 * kMs, /*closely=*/true);
    spent_ns += 2 * kMs;
    last_ns = now_ns;
    now_ns = next_ns;
  }
  EXPECT_NEAR(static_cast<double>(spent_ns) / static_cast<double>(now_ns), 0.02, 0.002);
}

TEST(Pace, UsualLooksLeaveTheReserveAlone) {
  Pace pace({.share = 0.01});
  EXPECT_EQ(pace.Next(0, 20 * kMs, kMs, /*closely=*/false), 120 * kMs);
  EXPECT_EQ(pace.Next(20 * kMs, 120 * kMs, kMs, /*closely=*/true), 128 * kMs);
}

TEST(Pace, CheapLooksAreAsCloseAsWished) {
  Pace pace({});
  EXPECT_EQ(pace.Next(0, 20 * kMs, 10'000, false), 40 * kMs);
  EXPECT_EQ(pace.Next(20 * kMs, 40 * kMs, 10'000, true), 48 * kMs);
}

}  // namespace
}  // namespace probing::observe
