#include "arch/prologue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace probing::arch {
namespace {

std::vector<std::byte> Code(std::initializer_list<std::uint32_t> instructions) {
  std::vector<std::byte> bytes(instructions.size() * 4);
  std::memcpy(bytes.data(), instructions.begin(), bytes.size());
  return bytes;
}

constexpr std::uint32_t kSign = 0xd503233f;        // paciasp
constexpr std::uint32_t kPushBoth = 0xa9bd7bfd;    // stp x29, x30, [sp, #-48]!
constexpr std::uint32_t kSetFrame = 0x910003fd;    // mov x29, sp
constexpr std::uint32_t kSavePair = 0xa90153f3;    // stp x19, x20, [sp, #16]
constexpr std::uint32_t kSaveOne = 0xf90013f5;     // str x21, [sp, #32]
constexpr std::uint32_t kReserve = 0xd10083ff;     // sub sp, sp, #32
constexpr std::uint32_t kSaveFloats = 0x6d0123e9;  // stp d9, d8, [sp, #16]

TEST(Prologue, AtItsFirstInstructionNothingIsOnTheStack) {
  for (const auto& code : {Code({}), Code({kSign})}) {
    const auto found = ReadPrologue(code);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->caller_register, dwarf::kStackPointer);
    EXPECT_EQ(found->caller_offset, 0);
    EXPECT_EQ(found->saved_at[dwarf::kReturnColumn], 0) << "it is in its register";
  }
}

TEST(Prologue, StoresAreBelowTheCallersStackPointer) {
  const auto found = ReadPrologue(Code({kSign, kPushBoth, kSavePair, kSaveOne, kSaveFloats}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_register, dwarf::kStackPointer);
  EXPECT_EQ(found->caller_offset, 48);
  EXPECT_EQ(found->saved_at[dwarf::kFramePointer], -48);
  EXPECT_EQ(found->saved_at[dwarf::kReturnColumn], -40);
  EXPECT_EQ(found->saved_at[19], -32);
  EXPECT_EQ(found->saved_at[20], -24);
  EXPECT_EQ(found->saved_at[21], -16);
}

TEST(Prologue, AFramePointerSurvivesWhatFollows) {
  // … and sub sp, sp, x0 for a local of any size
  const auto found = ReadPrologue(Code({kPushBoth, kSetFrame, kReserve, 0xcb2063ff}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_register, dwarf::kFramePointer);
  EXPECT_EQ(found->caller_offset, 48);
  EXPECT_FALSE(ReadPrologue(Code({kPushBoth, 0xcb2063ff})).has_value()) << "nothing leads back";
}

TEST(Prologue, EndsWithTheFirstBranch) {
  const auto found = ReadPrologue(Code({kPushBoth, 0x94000004, kReserve}));  // bl
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_offset, 48);
}

TEST(Prologue, NoiseIsARowOrAnError) {
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::byte> bytes(random() % 96);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    (void)ReadPrologue(bytes);
  }
}

TEST(Prologue, KnowsWhatFollowsACall) {
  const auto ends = [](std::uint32_t instruction) {
    std::array<std::byte, kLongestCallBytes> bytes;
    std::memcpy(bytes.data(), &instruction, sizeof(instruction));
    return EndsWithCall(bytes);
  };
  EXPECT_TRUE(ends(0x97ffffff));   // bl
  EXPECT_TRUE(ends(0xd63f0100));   // blr x8
  EXPECT_TRUE(ends(0xd73f0a5f));   // blraa x18, sp
  EXPECT_FALSE(ends(0x14000004));  // b
  EXPECT_FALSE(ends(0xd65f03c0));  // ret
  EXPECT_FALSE(ends(0));
}

}  // namespace
}  // namespace probing::arch
