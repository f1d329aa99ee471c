#include "cli/target.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace probing::cli {
namespace {

TEST(Target, APidOfARunningProcessIsATarget) {
  const Result<pid_t> pid = ParseTarget(std::to_string(getpid()));
  ASSERT_TRUE(pid.ok()) << pid.error().message;
  EXPECT_EQ(*pid, getpid());
}

TEST(Target, GarbageIsWrongUsage) {
  for (const char* garbage :
       {"", "abc", "12x", "-1", "0", "+5", " 7", "99999999999999999999", "1.5", ":80"}) {
    EXPECT_EQ(ParseTarget(garbage).error().code, Code::kUsage) << garbage;
  }
}

TEST(Target, KindsOfLaterVersionsAreNamedAsSuch) {
  for (const char* later :
       {"node7:3344", "127.0.0.1:3344", "[::1]:3344", "unix:/tmp/x.sock", "rank:3", "clickhouse://host/db"}) {
    const Result<pid_t> pid = ParseTarget(later);
    EXPECT_EQ(pid.error().code, Code::kUsage) << later;
    EXPECT_NE(pid.error().message.find("not served by probing"), std::string::npos) << pid.error().message;
    EXPECT_TRUE(LooksLikeTarget(later)) << later;
  }
}

TEST(Target, CommandsCodeAndSettingsDoNotLookLikeTargets) {
  for (const char* word : {"inject", "print(1)", "probing.nested=1", "x: 5", "-t", "{1:2}", ""}) {
    EXPECT_FALSE(LooksLikeTarget(word)) << word;
  }
}

}  // namespace
}  // namespace probing::cli
