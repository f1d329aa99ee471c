#include "pyapi/gil_offsets.h"

#include <gtest/gtest.h>

#include <array>

namespace probing::pyapi {
namespace {

// An interpreter's state with these two pointers at the places of the table.
std::array<char, 2048> Interpreter(const GilOffsets& offsets, const void* threads_head, const void* modules) {
  std::array<char, 2048> bytes{};
  std::memcpy(&bytes[offsets.threads_head], &threads_head, sizeof(threads_head));
  std::memcpy(&bytes[offsets.modules], &modules, sizeof(modules));
  return bytes;
}

TEST(GilOffsets, TheFlagIsKnownExactlyWhereItCannotBeSetByAFunction) {
  for (int version = 306; version <= 315; ++version) {
    const auto offsets = FindGilOffsets(version);
    const bool known = offsets && offsets->breaker != kNoOffset;
    EXPECT_EQ(known, version >= 309 && version <= 312) << version;
    EXPECT_EQ(offsets && offsets->queue_closed != kNoOffset, version == 308) << version;
  }
}

TEST(GilOffsets, AnInterpreterOfItsVersionFits) {
  const int thread = 0, modules = 0;
  for (int version = 309; version <= 312; ++version) {
    const auto offsets = FindGilOffsets(version);
    EXPECT_TRUE(Fits(*offsets, Interpreter(*offsets, &thread, &modules).data(), &thread, &modules))
        << version;
  }
}

TEST(GilOffsets, ABuildWithOtherFieldsDoesNot) {
  const int thread = 0, modules = 0;
  const GilOffsets offsets = *FindGilOffsets(311);
  GilOffsets longer = offsets;
  longer.modules += 8;
  EXPECT_FALSE(Fits(offsets, Interpreter(longer, &thread, &modules).data(), &thread, &modules));
  longer = offsets;
  longer.threads_head += 8;
  EXPECT_FALSE(Fits(offsets, Interpreter(longer, &thread, &modules).data(), &thread, &modules));
  EXPECT_FALSE(Fits(offsets, Interpreter(offsets, nullptr, nullptr).data(), nullptr, nullptr));
}

}  // namespace
}  // namespace probing::pyapi
