#include "query/units.h"

#include <gtest/gtest.h>

namespace probing::query {
namespace {

TEST(Units, ComeFromTheTablesThatTheQueryNames) {
  EXPECT_EQ(Units("SELECT rss FROM python.memory").UnitOf("rss"), "bytes");
  EXPECT_EQ(Units("SELECT * FROM python.torch_steps").UnitOf("duration"), "s");
  EXPECT_EQ(Units("SELECT rss FROM python.torch_steps").UnitOf("rss"), "");
  EXPECT_EQ(Units("SELECT step FROM python.torch_steps").UnitOf("step"), "");
}

TEST(Units, AggregatesKeepThem) {
  const Units units("SELECT max(rss), count(rss) FROM python.memory m");
  EXPECT_EQ(units.UnitOf("max(rss)"), "bytes");
  EXPECT_EQ(units.UnitOf("max(m.rss)"), "bytes");
  EXPECT_EQ(units.UnitOf("quantile_cont(rss, 0.5)"), "bytes");
  EXPECT_EQ(units.UnitOf("count(rss)"), "");
  EXPECT_EQ(units.UnitOf("max(rss / 1e6)"), "");
  EXPECT_EQ(units.UnitOf("(rss / 1e6)"), "");
}

TEST(Units, ANameThatTheQueryGivesCountsForWhatItNames) {
  const Units units(
      "SELECT rss / 1048576 AS rss, max(m.vms) AS most, heap AS h, 2 * max(heap) AS twice, avg(rss)/2 AS "
      "half,"
      " CAST(heap AS double) AS heap FROM python.memory m");
  EXPECT_EQ(units.UnitOf("rss"), "");
  EXPECT_EQ(units.UnitOf("most"), "bytes");
  EXPECT_EQ(units.UnitOf("h"), "bytes");
  EXPECT_EQ(units.UnitOf("twice"), "");
  EXPECT_EQ(units.UnitOf("half"), "");
  EXPECT_EQ(units.UnitOf("heap"), "");
}

TEST(Units, NumbersAreShownAsPeopleWriteThem) {
  EXPECT_EQ(HumanNumber("1288490189", "bytes", true), "1.20 GB");
  EXPECT_EQ(HumanNumber("512", "bytes", true), "512 B");
  EXPECT_EQ(HumanNumber("12.5", "MB", false), "12.5 MB");
  EXPECT_EQ(HumanNumber("2048", "bytes/s", false), "2.00 KB/s");
  EXPECT_EQ(HumanNumber("0.00123456", "s", false), "1.23 ms");
  EXPECT_EQ(HumanNumber("0.9999", "s", false), "1.00 s");
  EXPECT_EQ(HumanNumber("250", "us", false), "250 µs");
  EXPECT_EQ(HumanNumber("125", "s", false), "2 min 5 s");
  EXPECT_EQ(HumanNumber("-7300", "s", false), "-2 h 1 min");
  EXPECT_EQ(HumanNumber("45.678", "%", false), "45.7 %");
  EXPECT_EQ(HumanNumber("1410", "MHz", true), "1410 MHz");
  EXPECT_EQ(HumanNumber("0.30000000000000004", "", false), "0.3");
  EXPECT_EQ(HumanNumber("9007199254740993", "", true), "9007199254740993");
  EXPECT_EQ(HumanNumber("1700000000000000000", "ns", true), "1700000000000000000");
  EXPECT_EQ(HumanNumber("NaN", "s", false), "NaN");
}

}  // namespace
}  // namespace probing::query
