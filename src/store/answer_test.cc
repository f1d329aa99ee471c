#include "store/answer.h"

#include <gtest/gtest.h>

namespace probing::store {
namespace {

TEST(Answer, BecomesAStatementForOurEngine) {
  const Result<std::string> sql = ToSelect(
      "rank\tit\\'s\tx\nNullable(Int64)\tString\tFloat64\n3\tcan\\'t "
      "\\\"\\n\tnan\n\\N\t\\\\\t-1.5e-7\n1\t\t-0\n");
  ASSERT_TRUE(sql.ok());
  EXPECT_EQ(
      *sql,
      "SELECT r.c0 AS \"rank\", r.c1 AS \"it's\", r.c2 AS \"x\" FROM (SELECT unnest(from_json('["
      "{\"c0\":3,\"c1\":\"can''t \\\"\\u000a\",\"c2\":\"nan\"},{\"c0\":null,\"c1\":\"\\\\\",\"c2\":-1.5e-7},"
      "{\"c0\":1,\"c1\":\"\",\"c2\":-0.0}"
      "]', '[{\"c0\":\"BIGINT\",\"c1\":\"VARCHAR\",\"c2\":\"DOUBLE\"}]')) AS r)");
}

TEST(Answer, NumbersThatAreNoneStayWithinTheStatement) {
  const Result<std::string> sql = ToSelect("a\tb\nInt64\tFloat64\n1]') , 2\t1'\n");
  ASSERT_TRUE(sql.ok());
  EXPECT_NE(sql->find("[{\"c0\":\"1]'') , 2\",\"c1\":\"1''\"}]"), std::string::npos) << *sql;
}

TEST(Answer, WhatIsNoTableIsAnError) {
  EXPECT_FALSE(ToSelect("").ok());
  EXPECT_FALSE(ToSelect("a\tb\nInt64\n").ok());
  EXPECT_FALSE(ToSelect("a\tb\nInt64\tInt64\n1\n").ok());
}

}  // namespace
}  // namespace probing::store
