#include "daemon/bursts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <functional>

namespace probing::daemon {
namespace {

namespace asio = boost::asio;
using server::Json;
using namespace std::chrono_literals;

// A child without Python that is always busy; its native frames are sampled.
class BurstsTest : public testing::Test {
 protected:
  void SetUp() override {
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed must not leave a busy process behind
      for (volatile unsigned i = 0;; i = i + 1) {
      }
    }
    ASSERT_GT(child_, 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  Result<void> Start(const observe::Trigger& trigger) {
    Result<void> result = Error{Code::kFailed, "it never began", ""};
    // With a name: GCC 12 destroys a braced argument of co_await twice.
    const observe::SamplerOptions options{symbols_};
    asio::co_spawn(
        io_, [&]() -> asio::awaitable<void> { result = co_await bursts_.Start(child_, trigger, options); },
        asio::detached);
    // Until it has begun, which is what Start() waits for.
    for (int i = 0; i < 1000 && !result.ok() && result.error().message == "it never began"; ++i)
      io_.run_one_for(1s);
    return result;
  }
  void WaitUntilNoneRuns() {
    for (int i = 0; i < 1000 && bursts_.running() > 0; ++i) io_.run_one_for(20ms);
    ASSERT_EQ(bursts_.running(), 0U) << "a burst did not end within 20 s";
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Bursts bursts_{io_};
  std::shared_ptr<unwind::SymbolStore> symbols_ = std::make_shared<unwind::SymbolStore>();
  pid_t child_ = 0;
};

TEST_F(BurstsTest, SamplesCarryTheReasonTheyWereTakenFor) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the sanitizer has a thread of its own in every process";
#endif
  const auto started = Start({.hz = 200, .duration_ms = 200, .reason = "step 7 took 3.1 times the median"});
  ASSERT_TRUE(started.ok()) << started.error().message;
  EXPECT_EQ(bursts_.running(), 1U);
  WaitUntilNoneRuns();
  const Json list = bursts_.ToJson(child_);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["reason"], "step 7 took 3.1 times the median");
  EXPECT_EQ(list[0]["period_ns"], 5'000'000);
  ASSERT_FALSE(list[0]["folded"].empty()) << list.dump();
  for (const Json& stack : list[0]["folded"]) {
    EXPECT_EQ(stack["trigger"], "step 7 took 3.1 times the median");
    EXPECT_EQ(stack["tid"], child_);
    EXPECT_FALSE(stack["stack"].empty());
  }
}

TEST_F(BurstsTest, AnEventThatHappensAllTheTimeDoesNotSampleTwice) {
  ASSERT_TRUE(Start({.hz = 50, .duration_ms = 300, .reason = "first"}).ok());
  ASSERT_TRUE(Start({.hz = 50, .duration_ms = 300, .reason = "second"}).ok());
  EXPECT_EQ(bursts_.running(), 1U);
  WaitUntilNoneRuns();
  const Json list = bursts_.ToJson(child_);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["reason"], "first");
  EXPECT_EQ(list[0]["ignored"], 1);
}

TEST_F(BurstsTest, OnlyTheLastFewAreKeptAndThenForgotten) {
  for (std::size_t i = 0; i < Bursts::kKept + 2; ++i) {
    ASSERT_TRUE(Start({.hz = 100, .duration_ms = 10, .reason = std::to_string(i)}).ok());
    WaitUntilNoneRuns();
  }
  const Json list = bursts_.ToJson(child_);
  ASSERT_EQ(list.size(), Bursts::kKept);
  EXPECT_EQ(list.front()["reason"], "2");
  bursts_.ForgetOld(0);
  EXPECT_TRUE(bursts_.ToJson(child_).empty());
}

TEST_F(BurstsTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(Start({.hz = 0, .reason = "x"}).error().code, Code::kUsage);
  EXPECT_EQ(Start({.hz = 1e6, .reason = "x"}).error().code, Code::kUsage);
  EXPECT_EQ(Start({.duration_ms = 3'600'000, .reason = "x"}).error().code, Code::kUsage);
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  EXPECT_FALSE(Start({.reason = "x"}).ok());
  EXPECT_TRUE(bursts_.ToJson(child_).empty());
  SetUp();
}

}  // namespace
}  // namespace probing::daemon
