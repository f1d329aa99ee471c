#include "record/overhead.h"

#include <gtest/gtest.h>

#include "table/rows.h"

namespace probing::record {
namespace {

using table::Value;

TEST(Overhead, PartsAreCountedAndTimed) {
  Overhead::Reset();
  Overhead::Add(Part::kGc, 100);
  Overhead::Add(Part::kGc, 50);
  {
    const Measured measured(Part::kHooks);
  }
  EXPECT_EQ(Overhead::Of(Part::kGc).calls, 2);
  EXPECT_EQ(Overhead::Of(Part::kGc).total_ns, 150);
  EXPECT_EQ(Overhead::Of(Part::kHooks).calls, 1);
  EXPECT_EQ(Overhead::Of(Part::kMemory).calls, 0);
}

TEST(Overhead, OneTimedRowStandsForThoseBeforeIt) {
  Overhead::Reset();
  int timed = 0;
  for (int i = 0; i < 1 + 2 * Overhead::kRowsPerTiming; ++i) {
    if (!Overhead::CountRow()) continue;
    ++timed;
    Overhead::AddTimedRow(10);
  }
  EXPECT_EQ(timed, 3);
  const Cost rows = Overhead::Of(Part::kRows);
  EXPECT_EQ(rows.calls, 1 + 2 * Overhead::kRowsPerTiming);
  EXPECT_EQ(rows.total_ns, 10 * rows.calls);
}

TEST(Overhead, IsATableWithTheColumnsThatAreAskedFor) {
  Overhead::Reset();
  Overhead::Add(Part::kLive, 3000);
  Overhead::Add(Part::kLive, 1000);
  const auto encoded =
      EncodeOverhead({"percent", "part", "mean_ns"}, {.calls = 2, .total_ns = 500}, WallNs() - 1'000'000'000);
  ASSERT_TRUE(encoded.ok());
  const auto rows = table::Rows::Decode(*encoded);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 1 + kParts);
  EXPECT_EQ(rows->at(1, 0), Value(std::string("control")));
  EXPECT_EQ(rows->at(2, 0), Value(250.0));
  EXPECT_EQ(rows->at(1, 2), Value(std::string("live")));
  EXPECT_EQ(rows->at(2, 2), Value(2000.0));
  EXPECT_NEAR(std::get<double>(rows->at(0, 2)), 0.0004, 0.0001);
  EXPECT_EQ(rows->at(2, 3), Value()) << "nothing was called, so there is no mean";
  EXPECT_FALSE(EncodeOverhead({"nonsense"}, {}, 0).ok());
}

}  // namespace
}  // namespace probing::record
