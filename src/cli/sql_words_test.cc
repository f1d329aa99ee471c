#include "cli/sql_words.h"

#include <gtest/gtest.h>

namespace probing::cli {
namespace {

const SqlNames& Names() {
  static const SqlNames names{.tables = {"python.stacks", "python.torch_steps", "system.cpu"},
                              .columns = {{"python.torch_steps", "duration"},
                                          {"python.torch_steps", "data_wait"},
                                          {"system.cpu", "percent"}}};
  return names;
}

std::vector<std::string> Complete(std::string_view before) { return CompleteSql(before, Names()).words; }
using Strings = std::vector<std::string>;

TEST(SqlWords, AStatementEndsWithASemicolonThatIsCode) {
  EXPECT_TRUE(IsWholeStatement("SELECT 1;"));
  EXPECT_TRUE(IsWholeStatement("SELECT 1; -- done"));
  EXPECT_TRUE(IsWholeStatement("SELECT 1;\n"));
  EXPECT_FALSE(IsWholeStatement("SELECT ';"));
  EXPECT_FALSE(IsWholeStatement("SELECT 1 -- ;"));
  EXPECT_FALSE(IsWholeStatement("SELECT 1 /* ; */"));
  EXPECT_FALSE(IsWholeStatement(""));
}

TEST(SqlWords, TheSemicolonIsNoPartOfTheStatement) {
  EXPECT_EQ(WithoutSemicolon("  SELECT 1 ;  "), "SELECT 1");
  EXPECT_EQ(WithoutSemicolon("SELECT ';';"), "SELECT ';'");
  EXPECT_EQ(WithoutSemicolon(" ; -- nothing"), "");
}

TEST(SqlWords, BehindFromComeTables) {
  EXPECT_EQ(Complete("SELECT * FROM py"), (Strings{"python.stacks", "python.torch_steps"}));
  EXPECT_EQ(Complete("select * from "), (Strings{"python.stacks", "python.torch_steps", "system.cpu"}));
  EXPECT_EQ(Complete("SELECT * FROM python.t"), Strings{"python.torch_steps"});
  EXPECT_EQ(CompleteSql("SELECT * FROM python.t", Names()).count, 8U);
}

TEST(SqlWords, ElsewhereColumnsOfTheTablesThatAreNamed) {
  EXPECT_EQ(Complete("SELECT * FROM python.torch_steps WHERE du"), Strings{"duration"});
  EXPECT_EQ(Complete("SELECT * FROM python.torch_steps t ORDER BY t.da"), Strings{"t.data_wait"});
  EXPECT_EQ(Complete("SELECT * FROM system.cpu WHERE du"), Strings{});
}

TEST(SqlWords, KeywordsAsTheyAreTyped) {
  EXPECT_EQ(Complete("SEL"), Strings{"SELECT"});
  EXPECT_EQ(Complete("sel"), Strings{"select"});
}

TEST(SqlWords, DotCommandsAndWhatTheyTake) {
  EXPECT_EQ(Complete(".sc"), Strings{".schema"});
  EXPECT_EQ(Complete(".schema system."), Strings{"system.cpu"});
  EXPECT_EQ(Complete(".mode js"), (Strings{"json", "jsonl"}));
  EXPECT_EQ(Complete(".timer o"), (Strings{"off", "on"}));
}

}  // namespace
}  // namespace probing::cli
