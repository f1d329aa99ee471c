#include "cluster/packing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace probing::cluster {
namespace {

std::string Rows() {
  std::string rows;
  for (int i = 0; i < 10'000; ++i) rows += "\1" + std::to_string(i) + " all_reduce";
  return rows;
}

TEST(PackingTest, ComesBackAsItWas) {
  const std::string rows = Rows();
  const std::string packed = Pack(rows);
  ASSERT_FALSE(packed.empty());
  EXPECT_LT(packed.size(), rows.size() / 2);
  const Result<std::string> unpacked = Unpack(packed, rows.size());
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().message;
  EXPECT_EQ(*unpacked, rows);
}

TEST(PackingTest, WhatIsSmallIsLeftAlone) { EXPECT_EQ(Pack("a few bytes"), ""); }

TEST(PackingTest, MoreThanIsTakenIsRefusedBeforeItIsUnpacked) {
  const std::string packed = Pack(std::string(100 << 20, 'x'));
  ASSERT_LT(packed.size(), 1U << 20) << "a bomb";
  const Result<std::string> unpacked = Unpack(packed, 64 << 20);
  ASSERT_FALSE(unpacked.ok());
  EXPECT_NE(unpacked.error().message.find("104857600 bytes when unpacked"), std::string::npos);
}

TEST(PackingTest, ALieAboutItsLengthWritesNoMoreThanThat) {
  std::string packed = Pack(std::string(1 << 20, 'x'));
  for (const std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{(1 << 20) + 1}, UINT64_MAX}) {
    std::memcpy(packed.data(), &lie, sizeof(lie));
    EXPECT_FALSE(Unpack(packed, SIZE_MAX).ok()) << lie;
  }
}

TEST(PackingTest, DamageIsAnError) {
  const std::string packed = Pack(Rows());
  for (std::size_t size = 0; size < packed.size(); size += 97)
    EXPECT_FALSE(Unpack(packed.substr(0, size), 1 << 20).ok()) << size;
}

}  // namespace
}  // namespace probing::cluster
