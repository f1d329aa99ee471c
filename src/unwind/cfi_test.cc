#include "unwind/cfi.h"

#include <gtest/gtest.h>

#include <random>

#include "cpython/fake_memory.h"
#include "unwind/expression.h"
#include "unwind/step.h"

namespace probing::unwind {
namespace {

constexpr std::size_t kSaved =
    arch::dwarf::IsCalleeSaved(3) ? 3 : 19;  // a register that a function gives back as it found it

std::vector<std::byte> Bytes(std::initializer_list<std::size_t> values) {
  std::vector<std::byte> bytes;
  for (const std::size_t value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// version 1, "zR", code alignment 1, data alignment -8, return address, pointers pcrel|sdata4,
// then: CFA = stack pointer + 8, return address at CFA - 8.
const std::vector<std::byte> kCie = Bytes({0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, kReturnColumn, 1, 0x1b, 0x0c,
                                           kStackPointer, 8, 0x80 | kReturnColumn, 1});

// A function of 0x40 bytes that pushes the frame pointer after 1 byte and makes it the frame pointer after 4.
std::vector<std::byte> MakeFde() {
  return Bytes({0,
                0,
                0,
                0,
                0xfc,
                0x0f,
                0,
                0,
                0x40,
                0,
                0,
                0,
                0,  // starts at 0x1000 + 4 + 0xffc = 0x2000
                0x41,
                0x0e,
                16,
                0x80 | kFramePointer,
                2,
                0x43,
                0x0d,
                kFramePointer,
                0x7b,
                0x0c,
                kStackPointer,
                8});
}

TEST(Cfi, RulesAreThoseOfTheInstructionAsked) {
  const auto cie = ParseCie(kCie, 0x800);
  ASSERT_TRUE(cie.ok()) << cie.error().message;
  const auto fde = ParseFde(MakeFde(), 0x1000, *cie);
  ASSERT_TRUE(fde.ok()) << fde.error().message;
  EXPECT_EQ(fde->start, 0x2000U);
  EXPECT_EQ(fde->size, 0x40U);

  const auto at_entry = FindRow(*cie, *fde, 0x2000);
  ASSERT_TRUE(at_entry.ok());
  EXPECT_EQ(at_entry->cfa_register, kStackPointer);
  EXPECT_EQ(at_entry->cfa_offset, 8);
  EXPECT_EQ(at_entry->registers[kFramePointer].kind, Rule::Kind::kUnspecified);

  const auto after_push = FindRow(*cie, *fde, 0x2001);
  EXPECT_EQ(after_push->cfa_offset, 16);
  EXPECT_EQ(after_push->registers[kFramePointer].kind, Rule::Kind::kAtOffset);
  EXPECT_EQ(after_push->registers[kFramePointer].value, -16);

  const auto in_body = FindRow(*cie, *fde, 0x2010);
  EXPECT_EQ(in_body->cfa_register, kFramePointer);
  EXPECT_EQ(in_body->cfa_offset, 16);
  EXPECT_EQ(FindRow(*cie, *fde, 0x203f)->cfa_register, kStackPointer);
}

TEST(Cfi, AStepFollowsTheRules) {
  cpython::FakeMemory memory(4096);
  const std::uint64_t stack = cpython::FakeMemory::kBase + 512;
  memory.Write({stack}, std::uint64_t{0xb00});         // frame pointer of the caller
  memory.Write({stack + 8}, std::uint64_t{0x401234});  // return address
  Row row;
  row.cfa_offset = 16;
  row.registers[kFramePointer] = {Rule::Kind::kAtOffset, -16};
  row.registers[kReturnColumn] = {Rule::Kind::kAtOffset, -8};
  Registers registers;
  registers.Set(kStackPointer, stack);
  registers.Set(kSaved, 77);
  registers.Set(0, 5);
  const auto caller = StepByRules(row, registers, memory);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->Get(kStackPointer), stack + 16);
  EXPECT_EQ(caller->Get(kFramePointer), 0xb00U);
  EXPECT_EQ(caller->Get(kReturnAddress), 0x401234U);
  EXPECT_EQ(caller->Get(kSaved), 77U) << "callee-saved registers stay";
  EXPECT_FALSE(caller->Has(0)) << "others are lost";

  row.cfa_register = kFramePointer;
  EXPECT_EQ(StepByRules(row, registers, memory).error().code, Code::kNotFound)
      << "the frame pointer is not known";
}

TEST(Expression, OfAPltEntry) {
  // breg of the stack pointer 8, of the instruction pointer (of x86-64) 0, lit15, and, lit11, ge, lit3, shl,
  // plus: stack pointer + 8, and 8 more after the push.
  const auto plt =
      Bytes({0x70 + kStackPointer, 8, 0x70 + kReturnColumn, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  const cpython::FakeMemory memory(16);
  Registers registers;
  registers.Set(kStackPointer, 0x1000);
  registers.Set(kReturnColumn, 0x4006);
  EXPECT_EQ(*Evaluate(plt, registers, memory, std::nullopt), 0x1008U);
  registers.Set(kReturnColumn, 0x400b);
  EXPECT_EQ(*Evaluate(plt, registers, memory, std::nullopt), 0x1010U);
}

TEST(Expression, ThatUnderflowsOrReadsNowhereIsAnError) {
  const cpython::FakeMemory memory(16);
  EXPECT_FALSE(Evaluate(Bytes({0x22}), {}, memory, std::nullopt).ok());
  EXPECT_FALSE(Evaluate(Bytes({}), {}, memory, std::nullopt).ok());
  EXPECT_FALSE(Evaluate(Bytes({0x30, 0x06}), {}, memory, std::nullopt).ok());
  EXPECT_EQ(Evaluate(Bytes({0x70 + kStackPointer, 0}), {}, memory, std::nullopt).error().code,
            Code::kNotFound);
}

TEST(Cfi, GarbageIsAnErrorOrARowNeverACrash) {
  std::mt19937 random(1);
  cpython::FakeMemory memory(4096);
  memory.FillWithNoise(random);
  int rows = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> cie_bytes = kCie;
    std::vector<std::byte> fde_bytes = MakeFde();
    // Damage a few bytes of a good one: pure noise does not get far.
    for (int n = 0; n < 3; ++n) {
      auto& bytes = random() % 2 == 0 ? cie_bytes : fde_bytes;
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    fde_bytes.resize(fde_bytes.size() - random() % 4);
    const auto cie = ParseCie(cie_bytes, 0x800);
    if (!cie.ok()) continue;
    const auto fde = ParseFde(fde_bytes, 0x1000, *cie);
    if (!fde.ok()) continue;
    const auto row = FindRow(*cie, *fde, 0x2000 + random() % 0x40);
    if (!row.ok()) continue;
    ++rows;
    Registers registers;
    for (std::size_t r = 0; r < kRegisterCount; ++r)
      registers.Set(r, cpython::FakeMemory::kBase + random() % 4096);
    (void)StepByRules(*row, registers, memory);
  }
  EXPECT_GT(rows, 100);
}

TEST(Expression, NoiseIsAnErrorOrAValue) {
  std::mt19937 random(2);
  cpython::FakeMemory memory(4096);
  memory.FillWithPointers(random);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 40);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    Registers registers;
    registers.Set(kStackPointer, cpython::FakeMemory::kBase + random() % 4096);
    (void)Evaluate(bytes, registers, memory, random());
  }
}

}  // namespace
}  // namespace probing::unwind
