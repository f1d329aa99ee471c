#include "store/schema.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace probing::store {
namespace {

TEST(Schema, EveryStoredTableHasATimeAndWhoseRowsTheyAre) {
  const std::vector<Shape> shapes = DeclaredShapes();
  ASSERT_GT(shapes.size(), 10U);
  for (const Shape& shape : shapes) {
    EXPECT_EQ(shape.columns.front().type, table::Type::kTimestamp) << shape.table;
    for (const char* name : {"pid", "rank", "host"}) EXPECT_TRUE(HasColumn(shape, name)) << shape.table;
    EXPECT_EQ(TableName(StoredName(shape.table)), shape.table);
  }
}

TEST(Schema, ATableOfAClusterIsOneForThePartsAndOneForAll) {
  const Shape shape{"python.x", {{"timestamp", table::Type::kTimestamp}, {"n`", table::Type::kInt64}}};
  const auto plain = TableDdl(shape, {.database = "p", .cluster = "", .replicated = false});
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_NE(plain[0].find("`n\\`` Nullable(Int64)"), std::string::npos) << plain[0];
  EXPECT_NE(plain[0].find("ENGINE = ReplacingMergeTree\n"), std::string::npos);
  const auto cluster = TableDdl(shape, {.database = "p", .cluster = "c", .replicated = true});
  ASSERT_EQ(cluster.size(), 2U);
  EXPECT_NE(cluster[0].find("`p`.`python_x_local` ON CLUSTER `c`"), std::string::npos) << cluster[0];
  EXPECT_NE(
      cluster[0].find("ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/p/python_x', '{replica}')"),
      std::string::npos);
  EXPECT_NE(cluster[1].find("Distributed(`c`, `p`, `python_x_local`, cityHash64(probing_ring))"),
            std::string::npos);
}

TEST(Schema, AColumnOfTheJobsOwnIsNotThereTwice) {
  const Shape shape{"python.x", {{"timestamp", table::Type::kTimestamp}, {"Job", table::Type::kString}}};
  const std::vector<StoredColumn> columns = StoredColumns(shape);
  EXPECT_EQ(std::ranges::count(columns, "job", &StoredColumn::name), 0);
  EXPECT_EQ(std::ranges::count(columns, "Job", &StoredColumn::name), 1);
}

}  // namespace
}  // namespace probing::store
