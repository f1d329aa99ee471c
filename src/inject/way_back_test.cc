#include "inject/way_back.h"

#include <gtest/gtest.h>

#include <cstring>

namespace probing::inject {
namespace {

constexpr std::uint64_t kStackPointer = 0x7ffd'0000'1000;

SavedState SomeState() {
  SavedState state;
  state.registers.set_sp(kStackPointer);
  state.vectors.push_back({arch::kVectorStateNotes[0], std::vector<std::byte>(832)});
  return state;
}

TEST(WayBackTest, DataLiesBetweenTheFrameAndTheRedZone) {
  WayBack way_back(SomeState(), {0x4000}, 64);
  const std::uint64_t first = 1, second = 2;
  const auto first_at = way_back.Add(std::as_bytes(std::span(&first, 1)));
  const auto second_at = way_back.Add(std::as_bytes(std::span(&second, 1)));
  EXPECT_GE(second_at.address, first_at.address + sizeof(first));
  EXPECT_GT(first_at.address, way_back.stack_pointer());
  EXPECT_LT(second_at.address + sizeof(second), kStackPointer - arch::kRedZoneBytes);
  for (const auto& [at, value] : {std::pair(first_at, first), std::pair(second_at, second)}) {
    std::uint64_t found = 0;
    std::memcpy(&found, &way_back.bytes()[at.address - way_back.stack_pointer()], sizeof(found));
    EXPECT_EQ(found, value);
  }
}

TEST(WayBackTest, ReachesUpToWhatBelongsToTheInterruptedFunction) {
  const WayBack way_back(SomeState(), {0x4000}, 64);
  EXPECT_EQ(way_back.stack_pointer() + way_back.bytes().size(), kStackPointer - arch::kRedZoneBytes);
}

}  // namespace
}  // namespace probing::inject
