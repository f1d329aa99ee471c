#include "arch/signal_frame.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace probing::arch {
namespace {

constexpr std::uint64_t kStackPointer = 0x7ffd'0000'1230;
constexpr std::uint64_t kTrampoline = 0x7f00'0000'4000;
constexpr std::uint64_t kCode = 0x401000;
constexpr std::uint64_t kEpoll = 22;  // epoll_pwait

Registers SomeRegisters() {
  Registers registers;
  registers.set_ip(kCode);
  registers.set_sp(kStackPointer);
  for (std::size_t i = 0; i < 4; ++i) registers.set_argument(i, 100 + i);
  return registers;
}

// NT_ARM_SVE of a thread that uses it, with vectors of so many bytes.
VectorPart Sve(std::uint16_t vector_bytes, bool in_use = true) {
  const std::size_t bytes = 16 + vector_bytes / 16 * (32 * 16 + 16 * 2 + 2);
  VectorPart part{NT_ARM_SVE, std::vector<std::byte>(bytes, std::byte{7})};
  const struct {
    std::uint32_t size, max_size;
    std::uint16_t vector_bytes, max_vector_bytes, flags, reserved;
  } header{static_cast<std::uint32_t>(bytes), 0, vector_bytes, 0, static_cast<std::uint16_t>(in_use), 0};
  std::memcpy(part.bytes.data(), &header, sizeof(header));
  return part;
}

VectorState FloatsOnly() { return {{NT_PRFPREG, std::vector<std::byte>(528, std::byte{9})}}; }

std::uint64_t WordAt(const SignalFrame& frame, std::uint64_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, &frame.bytes[address - frame.start], sizeof(word));
  return word;
}

// Magic numbers of the records from there to their end.
std::vector<std::uint32_t> Records(const SignalFrame& frame, std::uint64_t at, std::uint64_t* end) {
  std::vector<std::uint32_t> found;
  while (true) {
    const std::uint64_t head = WordAt(frame, at);
    if (head == 0) break;
    found.push_back(static_cast<std::uint32_t>(head));
    at += head >> 32U;
  }
  *end = at;
  return found;
}

constexpr std::uint64_t kRecordsAt = 592;

TEST(SignalFrame, IsRecognisedAsTheKernelsOwn) {
  const SignalFrame frame = MakeSignalFrame(SomeRegisters(), FloatsOnly(), 0x5a5a, kTrampoline, 100);
  EXPECT_EQ(frame.start % 16, 0U);
  EXPECT_EQ(frame.start + frame.bytes.size(), kStackPointer);
  std::vector<std::uint64_t> words(kFrameWordsAtTrampoline);
  std::memcpy(words.data(), frame.bytes.data(), words.size() * 8);
  const FrameWords found(std::span(words).subspan(kFrameSkipsWords));
  EXPECT_TRUE(found.IsFrame(0));
  EXPECT_EQ(found.stack_pointer(), kStackPointer);
  EXPECT_EQ(found.instruction_pointer(), kCode);
  EXPECT_EQ(found.alternate_bytes(), 0U) << "the kernel leaves the alternate stack as it is";
  EXPECT_EQ(WordAt(frame, frame.start + 128 + 40), 0x5a5aU) << "the mask";
  const auto interrupted = InterruptedRegisters(words);
  ASSERT_TRUE(interrupted.has_value());
  EXPECT_EQ((*interrupted)[3], 103U);
  EXPECT_EQ((*interrupted)[dwarf::kStackPointer], kStackPointer);
  EXPECT_EQ((*interrupted)[dwarf::kReturnAddress], kCode);
}

TEST(SignalFrame, KeepsVectorsOfEveryLength) {
  for (const std::uint16_t vector_bytes : {16, 64, 128, 256}) {
    VectorState state = FloatsOnly();
    state.push_back(Sve(vector_bytes));
    const SignalFrame frame = MakeSignalFrame(SomeRegisters(), state, 0, kTrampoline, 100);
    std::uint64_t end = 0;
    const auto records = Records(frame, frame.start + kRecordsAt, &end);
    ASSERT_EQ(records.size(), 2U) << vector_bytes;
    EXPECT_EQ(records[0], 0x46508001U);
    if (vector_bytes <= 64) {
      EXPECT_EQ(records[1], 0x53564501U);
      continue;
    }
    // Longer ones come after the end, where the kernel wants them: at the next 16 bytes.
    EXPECT_EQ(records[1], 0x45585401U) << vector_bytes;
    const std::uint64_t extra = WordAt(frame, end - 32 + 8);
    EXPECT_EQ(extra, end + 16);
    EXPECT_EQ(Records(frame, extra, &end), std::vector<std::uint32_t>{0x53564501U});
    EXPECT_LT(end, frame.data);
  }
}

TEST(SignalFrame, LeavesVectorsOutThatAreNotInUse) {
  VectorState state = FloatsOnly();
  state.push_back(Sve(64, false));
  const SignalFrame frame = MakeSignalFrame(SomeRegisters(), state, 0, kTrampoline, 100);
  std::uint64_t end = 0;
  EXPECT_EQ(Records(frame, frame.start + kRecordsAt, &end).size(), 1U);
}

TEST(SignalFrame, IsRefusedForWhatItCannotRestore) {
  EXPECT_STREQ(WhyNoFrame(FloatsOnly()), "");
  for (const int note : {NT_ARM_SSVE, NT_ARM_ZA}) {
    VectorState state = FloatsOnly();
    state.push_back(Sve(64));
    state.back().note = note;
    EXPECT_STRNE(WhyNoFrame(state), "") << note;
    state.back().bytes.resize(16);
    const std::uint32_t header_only = 16;
    std::memcpy(state.back().bytes.data(), &header_only, sizeof(header_only));
    EXPECT_STREQ(WhyNoFrame(state), "") << note;
  }
  VectorState guarded = FloatsOnly();
  guarded.push_back({NT_ARM_GCS, std::vector<std::byte>(24, std::byte{1})});
  EXPECT_STRNE(WhyNoFrame(guarded), "");
}

TEST(Registers, ACallThatAStopHidIsSeenAgain) {
  WaitedCall waited{SYS_read, {3, 101, 102, 103, 0, 0}, kStackPointer, kCode + 4};
  Registers registers = SomeRegisters();  // set back: about to make the call
  registers.set_argument(0, 3);
  registers.set_next_syscall(SYS_read);
  const auto before = registers.InDwarfOrder();
  registers.Recognise(waited);
  EXPECT_EQ(registers.syscall(), SYS_read);
  EXPECT_EQ(registers.ip(), kCode + 4);
  EXPECT_EQ(registers.result(), -512);
  EXPECT_EQ(registers.syscall_argument(0), 3U);
  registers.PrepareForKernel();
  EXPECT_EQ(registers.InDwarfOrder(), before) << "as the kernel left it";
}

TEST(Registers, ATimedCallIsContinuedRatherThanMadeAgain) {
  WaitedCall waited{SYS_nanosleep, {100, 101, 102, 103, 0, 0}, kStackPointer, kCode + 4};
  Registers registers = SomeRegisters();
  registers.set_next_syscall(SYS_nanosleep);
  registers.Recognise(waited);
  EXPECT_EQ(registers.result(), -516);
  registers.PrepareForKernel();
  EXPECT_EQ(registers.ip(), kCode);
  EXPECT_EQ(registers.next_syscall(), SYS_restart_syscall);
}

TEST(Registers, ACallThatReportsEintrGetsItsFirstArgumentBack) {
  WaitedCall waited{kEpoll, {5, 101, 102, 103, 0, 0}, kStackPointer, kCode};
  Registers registers = SomeRegisters();
  registers.set_next_syscall(kEpoll);
  registers.set_result(-EINTR);
  registers.Recognise(waited);
  EXPECT_EQ(registers.syscall(), static_cast<std::int64_t>(kEpoll));
  registers.RepeatSyscall();
  EXPECT_EQ(registers.ip(), kCode - 4);
  EXPECT_EQ(registers.InDwarfOrder()[0], 5U);
}

TEST(Registers, WhatOnlyLooksLikeACallIsNone) {
  const WaitedCall waited{SYS_read, {3, 101, 102, 103, 0, 0}, kStackPointer, kCode + 4};
  for (int difference = 0; difference < 4; ++difference) {
    Registers registers = SomeRegisters();
    registers.set_argument(0, 3);
    registers.set_next_syscall(SYS_read);
    if (difference == 0) registers.set_sp(kStackPointer - 16);
    if (difference == 1) registers.set_argument(0, 4);
    if (difference == 2) registers.set_argument(2, 4);
    if (difference == 3) registers.set_ip(kCode + 8);
    registers.Recognise(waited);
    EXPECT_EQ(registers.syscall(), -1) << difference;
  }
}

TEST(Registers, AFunctionIsEnteredWithItsReturnAddressAndNoBranchToExplain) {
  Registers registers = SomeRegisters();
  registers.EnterFunction(0x500000, 0x7000, kTrampoline);
  EXPECT_EQ(registers.ip(), 0x500000U);
  EXPECT_EQ(registers.sp(), 0x7000U);
  EXPECT_EQ(registers.InDwarfOrder()[dwarf::kReturnColumn], kTrampoline);
  EXPECT_EQ(registers.syscall(), -1);
}

}  // namespace
}  // namespace probing::arch
