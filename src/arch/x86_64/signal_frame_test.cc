#include "arch/signal_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace probing::arch {
namespace {

constexpr std::uint64_t kStackPointer = 0x7ffd'0000'1234;
constexpr std::uint64_t kTrampoline = 0x7f00'0000'4000;

Registers SomeRegisters() {
  user_regs_struct native{};
  native.rip = 0x401000;
  native.rsp = kStackPointer;
  native.r12 = 12;
  native.eflags = 0x246;
  native.cs = 0x33;
  native.ss = 0x2b;
  Registers registers;
  std::memcpy(registers.bytes().data(), &native, sizeof(native));
  return registers;
}

SignalFrame SomeFrame(std::size_t vector_bytes, std::size_t data_bytes) {
  const VectorState state{{NT_X86_XSTATE, std::vector<std::byte>(vector_bytes, std::byte{7})}};
  return MakeSignalFrame(SomeRegisters(), state, 0x5a5a, kTrampoline, data_bytes);
}

std::uint64_t WordAt(const SignalFrame& frame, std::uint64_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, &frame.bytes[address - frame.start], sizeof(word));
  return word;
}

TEST(SignalFrame, EndsBelowTheRedZone) {
  for (const std::size_t vector_bytes : {832U, 2696U, 11'008U}) {
    const SignalFrame frame = SomeFrame(vector_bytes, 100);
    EXPECT_EQ(frame.start + frame.bytes.size(), kStackPointer - kRedZoneBytes) << vector_bytes;
    EXPECT_EQ(frame.start % 16, 8U) << "as behind a call";
    EXPECT_EQ(frame.data % 16, 0U);
    EXPECT_GT(frame.data, frame.start);
  }
}

TEST(SignalFrame, TheFunctionReturnsToTheTrampoline) {
  const SignalFrame frame = SomeFrame(832, 100);
  EXPECT_EQ(WordAt(frame, frame.start), kTrampoline);
}

TEST(SignalFrame, IsRecognisedAsTheKernelsOwn) {
  const SignalFrame frame = SomeFrame(832, 100);
  std::vector<std::uint64_t> words(FrameWords::kWords);
  std::memcpy(words.data(), &frame.bytes[8], words.size() * 8);
  const FrameWords found(words);
  EXPECT_TRUE(found.IsFrame(frame.start + 8));
  EXPECT_EQ(found.stack_pointer(), kStackPointer);
  EXPECT_EQ(found.instruction_pointer(), 0x401000U);
  EXPECT_EQ(found.alternate_bytes(), 0U) << "the kernel leaves the alternate stack as it is";
  words[22] = 0;  // eflags
  EXPECT_FALSE(FrameWords(words).IsFrame(frame.start + 8));
}

TEST(SignalFrame, RestoresTheMask) {
  const SignalFrame frame = SomeFrame(832, 100);
  EXPECT_EQ(WordAt(frame, frame.start + 8 + 5 * 8 + 256), 0x5a5aU);
}

TEST(Registers, AFunctionIsEnteredWithItsArgumentsAndWithoutACallToRestart) {
  Registers registers = SomeRegisters();
  registers.set_syscall(7);
  registers.EnterFunction(0x500000, 0x7000, kTrampoline);
  for (std::size_t i = 0; i < 4; ++i) registers.set_argument(i, 100 + i);
  EXPECT_EQ(registers.ip(), 0x500000U);
  EXPECT_EQ(registers.sp(), 0x7000U);
  EXPECT_EQ(registers.syscall(), -1);
  EXPECT_EQ(registers.native().rdi, 100U);
  EXPECT_EQ(registers.native().rcx, 103U);
  EXPECT_EQ(registers.native().r12, 12U) << "the rest stays";
}

TEST(Registers, ASystemCallsFourthArgumentIsNotAFunctions) {
  Registers registers = SomeRegisters();
  for (std::size_t i = 0; i < 6; ++i) registers.set_syscall_argument(i, 200 + i);
  EXPECT_EQ(registers.native().r10, 203U);
  EXPECT_EQ(registers.native().rcx, 0U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(registers.syscall_argument(i), 200 + i);
}

TEST(Registers, AreInTheOrderOfDwarf) {
  const auto values = SomeRegisters().InDwarfOrder();
  EXPECT_EQ(values[dwarf::kStackPointer], kStackPointer);
  EXPECT_EQ(values[dwarf::kReturnAddress], 0x401000U);
  EXPECT_EQ(values[12], 12U);
}

}  // namespace
}  // namespace probing::arch
