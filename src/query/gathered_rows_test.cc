#include "query/gathered_rows.h"

#include <gtest/gtest.h>

#include <random>

#include "query/protocol.h"
#include "table/rows.h"

namespace probing::query {
namespace {

using table::Rows;
using table::Type;
using table::Value;

const std::vector<Type> kTypes{Type::kInt64, Type::kDouble, Type::kBool, Type::kString, Type::kBytes};

std::string Sample() {
  Rows rows(kTypes);
  rows.Add({std::int64_t{7}, 0.5, true, std::string("a text of more than twelve bytes"),
            std::string("\xff\0", 2)});
  rows.Add({Value(), Value(), Value(), Value(), Value()});
  rows.Add({std::int64_t{-1}, -0.0, false, std::string(), std::string()});
  return rows.Encode();
}

TEST(GatheredRowsTest, TheyAreReadAsTheyWereWritten) {
  const Result<GatheredRows> rows = GatheredRows::Parse(Sample(), kTypes);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->size(), 3U);
  EXPECT_EQ(rows->Number(0, 0), 7);
  EXPECT_EQ(rows->Number(0, 1), 0);
  EXPECT_EQ(rows->Number(0, 2), -1);
}

TEST(GatheredRowsTest, OtherColumnsThanAskedForAreAnError) {
  std::vector<Type> others = kTypes;
  std::swap(others[0], others[1]);
  EXPECT_FALSE(GatheredRows::Parse(Sample(), others).ok());
  others.pop_back();
  EXPECT_FALSE(GatheredRows::Parse(Sample(), others).ok());
  EXPECT_FALSE(GatheredRows::Parse(Sample(), {}).ok());
}

TEST(GatheredRowsTest, TimesTravelAsNumbersAndRowsWithoutColumnsAsFlags) {
  Rows times({Type::kInt64});
  times.Add({std::int64_t{1}});
  EXPECT_TRUE(GatheredRows::Parse(times.Encode(), {Type::kTimestamp}).ok());
  Rows flags({Type::kBool});
  flags.Add({true});
  const Result<GatheredRows> counted = GatheredRows::Parse(flags.Encode(), {});
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->size(), 1U);
}

// A text that is cut or changed anywhere is refused, or still rows that can be read to their end.
TEST(GatheredRowsTest, DamageIsNoticedOrHarmless) {
  const std::string whole = Sample();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(GatheredRows::Parse(whole.substr(0, size), kTypes).ok()) << size;
  EXPECT_FALSE(GatheredRows::Parse(whole + "x", kTypes).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (int changes = 0; changes < 3; ++changes) text[random() % text.size()] = static_cast<char>(random());
    Result<GatheredRows> rows = GatheredRows::Parse(text, kTypes);
    if (!rows.ok()) continue;
    auto cursor = MakeGatheredCursor(std::make_shared<const GatheredRows>(std::move(*rows)));
    std::vector<std::vector<char>> data(kTypes.size(), std::vector<char>(table::kBatchRows * 16));
    std::vector<std::uint64_t> validity(table::kBatchRows / 64);
    std::vector<table::ColumnOut> columns;
    for (auto& each : data) columns.emplace_back(each.data(), validity.data());
    const Result<std::size_t> count = cursor->Next(columns);
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(*count, 3U);
  }
}

TEST(GatheredRowsTest, WhatIsWantedTravelsToTheOneWhoGathers) {
  const GatherRequest sent{.table = "python.x",
                           .columns = {{"pid", Type::kInt64}, {"op", Type::kString}},
                           .time = {.from_ns = 1, .to_ns = 2},
                           .is_stored = false};
  GatherRequest got;
  ASSERT_TRUE(Decode(Encode(sent), got));
  EXPECT_EQ(got.table, sent.table);
  EXPECT_EQ(got.columns.size(), 2U);
  EXPECT_EQ(got.columns[1].name, "op");
  EXPECT_EQ(got.time.to_ns, 2);
  EXPECT_FALSE(got.is_stored);
  const std::string whole = Encode(sent);
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Decode(whole.substr(0, size), got));
}

}  // namespace
}  // namespace probing::query
