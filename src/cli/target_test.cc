#include "cli/target.h"

#include <gtest/gtest.h>

namespace probing::cli {
namespace {

TEST(Target, APidIsATarget) {
  const Result<TargetName> name = ParseTarget("1234");
  ASSERT_TRUE(name.ok()) << name.error().message;
  EXPECT_EQ(name->pid, 1234);
  EXPECT_FALSE(name->endpoint);
}

TEST(Target, AnAddressIsATargetWithOrWithoutAPid) {
  const Result<TargetName> all = ParseTarget("node7:3344");
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->endpoint->ToText(), "node7:3344");
  EXPECT_FALSE(all->pid);
  const Result<TargetName> one = ParseTarget("[::1]:3344/1234");
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->endpoint->ToText(), "[::1]:3344");
  EXPECT_EQ(one->pid, 1234);
}

TEST(Target, ASocketIsATarget) {
  const Result<TargetName> all = ParseTarget("unix:/tmp/x.sock");
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->endpoint->socket_path, "/tmp/x.sock");
  EXPECT_FALSE(all->pid);
  EXPECT_EQ(ParseTarget("unix:/tmp/x.sock/12")->pid, 12);
}

TEST(Target, GarbageIsWrongUsage) {
  for (const char* garbage :
       {"", "abc", "12x", "-1", "0", "+5", " 7", "99999999999999999999", "1.5", ":80", "*:80", "unix:"}) {
    EXPECT_EQ(ParseTarget(garbage).error().code, Code::kUsage) << garbage;
  }
}

TEST(Target, AStoreHasTheFormOfATargetAndOtherUrlsHaveNot) {
  EXPECT_TRUE(LooksLikeTarget("clickhouse://host/db"));
  EXPECT_TRUE(LooksLikeTarget("clickhouse://host/db?async_insert=1"));
  EXPECT_FALSE(LooksLikeTarget("postgres://host/db"));
  EXPECT_EQ(ParseTarget("postgres://me:secret@host/db").error().code, Code::kUsage);
  EXPECT_EQ(ParseTarget("postgres://me:secret@host/db").error().message.find("secret"), std::string::npos);
}

TEST(Target, AScriptIsATargetBehindTheFlagOnly) {
  EXPECT_EQ(ParseTarget("train.py")->script, "train.py");
  EXPECT_EQ(ParseTarget("src/train.py")->script, "src/train.py");
  EXPECT_EQ(ParseTarget(".py").error().code, Code::kUsage);
  EXPECT_FALSE(LooksLikeTarget("train.py")) << "`probing run train.py` starts one";
}

TEST(Target, RanksAndJobsAreTargets) {
  EXPECT_EQ(ParseTarget("rank:3")->rank, 3);
  EXPECT_EQ(ParseTarget("job")->job, "");
  EXPECT_EQ(ParseTarget("job:night/run 7")->job, "night/run 7");
  for (const char* word : {"rank:3", "job", "job:29500"}) EXPECT_TRUE(LooksLikeTarget(word)) << word;
  for (const char* garbage : {"rank:", "rank:x", "rank:-1", "rank:99999999999999999999", "job:"})
    EXPECT_EQ(ParseTarget(garbage).error().code, Code::kUsage) << garbage;
}

TEST(Target, CommandsCodeAndSettingsDoNotLookLikeTargets) {
  for (const char* word : {"inject", "print(1)", "probing.nested=1", "x: 5", "-t", "{1:2}", ""}) {
    EXPECT_FALSE(LooksLikeTarget(word)) << word;
  }
}

}  // namespace
}  // namespace probing::cli
