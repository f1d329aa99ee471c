#include "unwind/prologue.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cpython/fake_memory.h"

namespace probing::unwind {
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
  const auto row = RowFromPrologue(kPushes);
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(row->is_guessed);
  EXPECT_EQ(row->cfa_register, kRsp);
  EXPECT_EQ(row->cfa_offset, 8 + 3 * 8 + 0x18);
  EXPECT_EQ(row->registers[kRbp].value, -16);
  EXPECT_EQ(row->registers[15].value, -24);
  EXPECT_EQ(row->registers[kRbx].value, -32);
  EXPECT_EQ(row->registers[kReturnAddress].value, -8);
}

TEST(Prologue, CountsOnlyWhatIsExecuted) {
  EXPECT_EQ(RowFromPrologue({})->cfa_offset, 8);
  EXPECT_EQ(RowFromPrologue(std::span(kPushes).first(1))->cfa_offset, 16);
  EXPECT_EQ(RowFromPrologue(std::span(kPushes).first(3))->cfa_offset, 24);
  EXPECT_EQ(RowFromPrologue(std::span(kPushes).first(6))->cfa_offset, 32)
      << "in the middle of the subtraction";
}

TEST(Prologue, AFramePointerSurvivesWhatFollows) {
  // endbr64; push rbp; mov %rsp,%rbp; push r12; and $-64,%rsp; add $-128,%rsp
  const auto row = RowFromPrologue(Bytes({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x48,
                                          0x83, 0xe4, 0xc0, 0x48, 0x83, 0xc4, 0x80}));
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->cfa_register, kRbp);
  EXPECT_EQ(row->cfa_offset, 16);
  EXPECT_EQ(row->registers[12].value, -24);
}

TEST(Prologue, RegistersStoredRatherThanPushed) {
  // sub $0x40,%rsp; mov %rbx,(%rsp); mov %r12,0x10(%rsp)
  const auto row =
      RowFromPrologue(Bytes({0x48, 0x83, 0xec, 0x40, 0x48, 0x89, 0x1c, 0x24, 0x4c, 0x89, 0x64, 0x24, 0x10}));
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->cfa_offset, 0x48);
  EXPECT_EQ(row->registers[kRbx].value, -0x48);
  EXPECT_EQ(row->registers[12].value, -0x38);
}

TEST(Prologue, ARealignedStackWithoutFramePointerIsRefused) {
  EXPECT_FALSE(RowFromPrologue(Bytes({0x48, 0x83, 0xe4, 0xc0})).ok());
}

TEST(Prologue, NoiseIsARowOrAnError) {
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::byte> bytes(random() % kMaxPrologueBytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    (void)RowFromPrologue(bytes);
  }
}

TEST(Prologue, KnowsWhatFollowsACall) {
  cpython::FakeMemory memory(64);
  const std::uint64_t base = cpython::FakeMemory::kBase;
  memory.Write({base + 16}, std::string_view("\xe8\x01\x02\x03\x04", 5));  // call relative
  memory.Write({base + 32}, std::string_view("\xff\xd0", 2));              // call *%rax
  EXPECT_TRUE(IsAfterCall(memory, base + 21));
  EXPECT_TRUE(IsAfterCall(memory, base + 34));
  EXPECT_FALSE(IsAfterCall(memory, base + 50));
  EXPECT_FALSE(IsAfterCall(memory, 3));
}

}  // namespace
}  // namespace probing::unwind
