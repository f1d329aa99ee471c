#include "daemon/rules.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace probing::daemon {
namespace {

TEST(Rules, OursAreAllUsable) {
  std::vector<std::string> problems;
  const std::vector<Rule> rules = LoadRules("", problems);
  EXPECT_TRUE(problems.empty()) << problems.front();
  EXPECT_GE(rules.size(), 15U);
  for (const Rule& rule : rules) {
    EXPECT_FALSE(rule.about.empty()) << rule.name;
    EXPECT_EQ(RuleSql(rule, {}).find('{'), std::string::npos) << rule.name;
  }
}

TEST(Rules, AFileSaysItsClassAndHasAStatement) {
  const Result<Rule> rule =
      ParseRule("x", "-- class: mine\n-- about: mine.\n-- more\nSELECT {patience} AS a, {patience}\n");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->class_name, "mine");
  EXPECT_EQ(rule->about, "mine.");
  EXPECT_EQ(RuleSql(*rule, {.patience_s = 2.5}), "-- more\nSELECT 2.500 AS a, 2.500\n");
  EXPECT_EQ(ParseRule("x", "SELECT 1").error().code, Code::kUsage);
  EXPECT_EQ(ParseRule("x", "-- class: a\n-- nothing more\n").error().code, Code::kUsage);
}

TEST(Rules, AUsersRuleTakesThePlaceOfOurs) {
  char directory[] = "/tmp/probing-rules-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = directory;
  std::ofstream(path + "/straggler.sql") << "-- class: straggler\nSELECT 1\n";
  std::ofstream(path + "/own.sql") << "-- class: own\nSELECT 2\n";
  std::ofstream(path + "/broken.sql") << "SELECT 3\n";
  std::ofstream(path + "/notes.txt") << "no rule\n";
  std::vector<std::string> none;
  std::vector<std::string> problems;
  const std::size_t ours = LoadRules("", none).size();
  const std::vector<Rule> rules = LoadRules(path, problems);
  EXPECT_EQ(rules.size(), ours + 1);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("broken"), std::string::npos);
  for (const Rule& rule : rules) {
    if (rule.name == "straggler") {
      EXPECT_EQ(rule.sql, "SELECT 1\n");
    }
  }
  for (const char* name : {"/straggler.sql", "/own.sql", "/broken.sql", "/notes.txt"})
    unlink((path + name).c_str());
  rmdir(directory);
}

}  // namespace
}  // namespace probing::daemon
