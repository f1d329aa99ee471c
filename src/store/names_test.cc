#include "store/names.h"

#include <gtest/gtest.h>

namespace probing::store {
namespace {

std::string Written(std::string_view sql) {
  return WithStoredNames(sql, {"python.gc", "python.torch_steps"}, "fleet");
}

TEST(Names, TablesOfOursGetTheNamesTheyHaveThere) {
  EXPECT_EQ(Written("SELECT * FROM python.gc"), "SELECT * FROM `fleet`.`python_gc`");
  EXPECT_EQ(Written("select 1 from global.python.torch_steps as s, Python.GC"),
            "select 1 from `fleet`.`python_torch_steps` as s, `fleet`.`python_gc`");
  EXPECT_EQ(Written("SELECT python.gc.duration_ms FROM python.gc"),
            "SELECT `fleet`.`python_gc`.duration_ms FROM `fleet`.`python_gc`");
  EXPECT_EQ(Written("FROM(python.gc)"), "FROM(`fleet`.`python_gc`)");
}

TEST(Names, EverythingElseStays) {
  for (const char* sql :
       {"SELECT name FROM system.parts", "SELECT 'python.gc'", "SELECT 'it''s python.gc'",
        "SELECT '\\' python.gc'", "SELECT 1 -- python.gc", "SELECT /* python.gc */ 1",
        "SELECT \"python.gc\", `python.gc`", "SELECT x.python.gc", "SELECT python.gcx, s.python",
        "SELECT 1.5, .5", "SELECT 'python.gc", "/* python.gc", ""})
    EXPECT_EQ(Written(sql), sql);
}

}  // namespace
}  // namespace probing::store
