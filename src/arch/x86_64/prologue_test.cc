#include "arch/prologue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace probing::arch {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// push rbp; push r15; push rbx; sub $0x18,%rsp; test %edi,%edi; js …
const std::vector<std::byte> kPushes =
    Bytes({0x55, 0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x18, 0x85, 0xff, 0x78, 0x7b, 0x90});

TEST(Prologue, PushesAndASubtraction) {
  const auto found = ReadPrologue(kPushes);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_register, dwarf::kStackPointer);
  EXPECT_EQ(found->caller_offset, 8 + 3 * 8 + 0x18);
  EXPECT_EQ(found->saved_at[dwarf::kFramePointer], -16);
  EXPECT_EQ(found->saved_at[15], -24);
  EXPECT_EQ(found->saved_at[3], -32);
  EXPECT_EQ(found->saved_at[dwarf::kReturnAddress], -8);
}

TEST(Prologue, CountsOnlyWhatIsExecuted) {
  EXPECT_EQ(ReadPrologue({})->caller_offset, 8);
  EXPECT_EQ(ReadPrologue(std::span(kPushes).first(1))->caller_offset, 16);
  EXPECT_EQ(ReadPrologue(std::span(kPushes).first(3))->caller_offset, 24);
  EXPECT_EQ(ReadPrologue(std::span(kPushes).first(6))->caller_offset, 32)
      << "in the middle of the subtraction";
}

TEST(Prologue, AFramePointerSurvivesWhatFollows) {
  // endbr64; push rbp; mov %rsp,%rbp; push r12; and $-64,%rsp; add $-128,%rsp
  const auto found = ReadPrologue(Bytes({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x48,
                                         0x83, 0xe4, 0xc0, 0x48, 0x83, 0xc4, 0x80}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_register, dwarf::kFramePointer);
  EXPECT_EQ(found->caller_offset, 16);
  EXPECT_EQ(found->saved_at[12], -24);
}

TEST(Prologue, RegistersStoredRatherThanPushed) {
  // sub $0x40,%rsp; mov %rbx,(%rsp); mov %r12,0x10(%rsp)
  const auto found =
      ReadPrologue(Bytes({0x48, 0x83, 0xec, 0x40, 0x48, 0x89, 0x1c, 0x24, 0x4c, 0x89, 0x64, 0x24, 0x10}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->caller_offset, 0x48);
  EXPECT_EQ(found->saved_at[3], -0x48);
  EXPECT_EQ(found->saved_at[12], -0x38);
}

TEST(Prologue, ARealignedStackWithoutFramePointerIsRefused) {
  EXPECT_FALSE(ReadPrologue(Bytes({0x48, 0x83, 0xe4, 0xc0})).has_value());
}

TEST(Prologue, NoiseIsARowOrAnError) {
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::byte> bytes(random() % 96);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    (void)ReadPrologue(bytes);
  }
}

// The last bytes of what is in memory before an address.
std::array<std::byte, kLongestCallBytes> EndingWith(std::initializer_list<int> values) {
  std::array<std::byte, kLongestCallBytes> code{};
  const auto bytes = Bytes(values);
  std::copy(bytes.begin(), bytes.end(), code.end() - static_cast<std::ptrdiff_t>(bytes.size()));
  return code;
}

TEST(Prologue, KnowsWhatFollowsACall) {
  EXPECT_TRUE(EndsWithCall(EndingWith({0xe8, 1, 2, 3, 4})));        // call relative
  EXPECT_TRUE(EndsWithCall(EndingWith({0xff, 0xd0})));              // call *%rax
  EXPECT_TRUE(EndsWithCall(EndingWith({0xff, 0x15, 1, 2, 3, 4})));  // call *0x…(%rip)
  EXPECT_FALSE(EndsWithCall(EndingWith({0xe9, 1, 2, 3, 4})));       // a jump
  EXPECT_FALSE(EndsWithCall(EndingWith({})));
}

}  // namespace
}  // namespace probing::arch
