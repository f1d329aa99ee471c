#include "inject/own_stack.h"

#include <gtest/gtest.h>

#include <vector>

#include "arch/for_tests.h"
#include "process/byte_memory.h"

namespace probing::inject {
namespace {

using process::ByteMemory;
using process::Mapping;
using process::Maps;

constexpr std::uint64_t kProgram = 0x400000, kLibc = 0x500000, kVdso = 0x600000;
constexpr std::uint64_t kHeap = 0x1000000, kHeapEnd = 0x2000000;
constexpr std::uint64_t kThreadStack = 0x7f0000000000, kThreadStackEnd = kThreadStack + (8 << 20);
constexpr std::uint64_t kMainStack = 0x7ffd00000000, kMainStackEnd = kMainStack + (132 << 10);
constexpr std::uint64_t kGuard = 4096;
// The restorer, the frame, and some more.
constexpr std::uint64_t kFrameWords = arch::FrameWords::kWords + 11;
constexpr std::uint64_t kDescriptor = kThreadStackEnd - 2304;

Mapping Code(std::uint64_t start, std::string path) {
  return {start, start + 0x10000, 0, 0, true, false, true, std::move(path)};
}
Mapping Data(std::uint64_t start, std::uint64_t end, std::string path = "") {
  return {start, end, 0, 0, true, true, false, std::move(path)};
}

Maps SomeMaps() {
  return Maps::Of({Code(kProgram, "/bin/job"), Code(kLibc, "/lib/libc.so.6"), Code(kVdso, "[vdso]"),
                   Data(kHeap, kHeapEnd, "[heap]"), Data(kThreadStack + kGuard, kThreadStackEnd),
                   Data(kMainStack, kMainStackEnd, "[stack]")});
}

SafePointRules SomeRules() {
  SafePointRules rules;
  rules.maps = SomeMaps();
  rules.forbidden.Add(Code(kLibc, ""));
  rules.forbidden.Add(Code(kVdso, ""));
  return rules;
}

// What glibc has at the thread pointer: pointers to itself, and far inside block, size and guard.
std::vector<std::uint64_t> SomeDescriptor(std::uint64_t block, std::uint64_t size, std::uint64_t guard,
                                          std::size_t at = 210) {
  std::vector<std::uint64_t> words(kDescriptorBytes / 8);
  words[0] = words[2] = kDescriptor;
  words[1] = kHeap + 0x40;                                  // dtv
  words[88] = kThreadStack - 0x100000, words[89] = 0x7f12;  // a list of threads, and a number
  words[at] = block, words[at + 1] = size, words[at + 2] = guard;
  return words;
}

// ── which stack ─────────────────────────────────────────────────────────────

TEST(StackOfDescriptorTest, FindsBlockSizeAndGuardWhereverTheyAre) {
  for (const std::size_t at : {3U, 100U, 210U, 285U}) {
    const auto words = SomeDescriptor(kThreadStack, 8 << 20, kGuard, at);
    EXPECT_EQ(StackOfDescriptor(kDescriptor, words), (StackRange{kThreadStack + kGuard, kDescriptor})) << at;
  }
}

TEST(StackOfDescriptorTest, TakesAStackOfTheProgramsOwnWithoutAGuard) {
  const auto words = SomeDescriptor(kDescriptor - 20'000, 20'000 + 2304, 0);
  EXPECT_EQ(StackOfDescriptor(kDescriptor, words), (StackRange{kDescriptor - 20'000, kDescriptor}));
}

TEST(StackOfDescriptorTest, AMainThreadHasNone) {
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(0, 0, 0)), std::nullopt);
  // Not even when a size alone leads from 0 to it.
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(0, kDescriptor + 100, 0)), std::nullopt);
}

TEST(StackOfDescriptorTest, ABlockThatDoesNotEndAboveTheDescriptorIsSomethingElse) {
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(kThreadStack, 4 << 20, kGuard)), std::nullopt);
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(kThreadStack, 64 << 20, kGuard)), std::nullopt);
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(kThreadStack, 8 << 20, 9 << 20)), std::nullopt);
  EXPECT_EQ(StackOfDescriptor(kDescriptor, SomeDescriptor(kDescriptor + 8, 8 << 20, 0)), std::nullopt);
}

TEST(StackOfDescriptorTest, SurvivesAnyWords) {
  EXPECT_EQ(StackOfDescriptor(0, {}), std::nullopt);
  const std::vector<std::uint64_t> ones(kDescriptorBytes / 8, ~std::uint64_t{0});
  EXPECT_EQ(StackOfDescriptor(kDescriptor, ones), std::nullopt);
  EXPECT_EQ(StackOfDescriptor(0, ones), std::nullopt);
}

constexpr StackRange kOfThread{kThreadStack + kGuard, kDescriptor};

TEST(OwnStackTest, AThreadIsOnTheBlockOfItsDescriptor) {
  EXPECT_EQ(OwnStack(SomeMaps(), kOfThread, kDescriptor - 0x1000, false), kOfThread);
}

TEST(OwnStackTest, TheMainThreadIsOnTheKernelsStack) {
  const StackRange main_stack{kMainStack, kMainStackEnd};
  EXPECT_EQ(OwnStack(SomeMaps(), std::nullopt, kMainStackEnd - 0x1000, true), main_stack);
}

TEST(OwnStackTest, AnotherThreadOnTheKernelsStackIsOnSomebodyElsesVariable) {
  EXPECT_EQ(OwnStack(SomeMaps(), std::nullopt, kMainStackEnd - 0x1000, false), std::nullopt);
  EXPECT_EQ(OwnStack(SomeMaps(), kOfThread, kMainStackEnd - 0x1000, false), std::nullopt);
}

TEST(OwnStackTest, TheChildOfAForkByAThreadIsOnThatThreadsStack) {
  EXPECT_EQ(OwnStack(SomeMaps(), kOfThread, kDescriptor - 0x1000, true), kOfThread);
}

TEST(OwnStackTest, AlternateStacksAndCoroutinesAreNobodys) {
  EXPECT_EQ(OwnStack(SomeMaps(), std::nullopt, kHeap + 0x80000, true), std::nullopt);
  EXPECT_EQ(OwnStack(SomeMaps(), kOfThread, kHeap + 0x80000, false), std::nullopt);
  // A coroutine on another thread's stack.
  EXPECT_EQ(OwnStack(SomeMaps(), std::nullopt, kDescriptor - 0x1000, true), std::nullopt);
}

TEST(OwnStackTest, ReadOnlyAndUnmappedMemoryIsNoStack) {
  EXPECT_EQ(OwnStack(SomeMaps(), StackRange{kProgram, kProgram + 0x10000}, kProgram + 0x8000, false),
            std::nullopt);
  EXPECT_EQ(OwnStack(SomeMaps(), kOfThread, 0, false), std::nullopt);
}

TEST(OwnStackTest, RoomEndsWhereTheBlockBeginsNotTheMapping) {
  // A small stack of the program's own in the heap: right below it is its data.
  const StackRange own{kHeap + 0x80000, kHeap + 0x90000};
  EXPECT_EQ(OwnStack(SomeMaps(), own, kHeap + 0x8f000, false), own);
  EXPECT_EQ(OwnStack(SomeMaps(), own, kHeap + 0x7f000, false), std::nullopt);
}

TEST(OwnStackTest, RoomEndsWhereTheMappingBeginsNotTheBlock) {
  // What glibc's descriptor calls the block may begin with pages that are not writable.
  const StackRange own{kThreadStack, kDescriptor};
  EXPECT_EQ(OwnStack(SomeMaps(), own, kDescriptor - 0x1000, false), kOfThread);
}

// ── what is on it ───────────────────────────────────────────────────────────

struct Frame {
  std::uint64_t interrupted_ip = kProgram + 0x10;
  std::uint64_t interrupted_sp = 0;  // 0: right above
  std::uint64_t restorer = kLibc + 0x77;
  std::uint64_t alt_start = 0, alt_size = 0;
  std::uint64_t flags = arch::FrameOfSignal{}.flags;
};

// The used part of the main stack, from its stack pointer on.
class Stack {
 public:
  explicit Stack(std::uint64_t used_bytes)
      : words_(used_bytes / 8, 0x1111), stack_pointer_(kMainStackEnd - used_bytes) {}

  Stack& Put(std::uint64_t offset_bytes, const Frame& frame) {
    const std::uint64_t address = stack_pointer_ + offset_bytes;
    std::uint64_t* at = &words_[offset_bytes / 8];
    std::fill(at, at + kFrameWords, 0);
    at[0] = frame.restorer;
    arch::FrameOfSignal written;
    written.flags = frame.flags;
    written.alternate_start = frame.alt_start, written.alternate_bytes = frame.alt_size;
    written.stack_pointer = frame.interrupted_sp != 0 ? frame.interrupted_sp : address + 0x400;
    written.instruction_pointer = frame.interrupted_ip;
    written.vector_state = address + 0x180;
    arch::WriteFrame(written, {at + 1, arch::FrameWords::kWords});
    return *this;
  }
  std::uint64_t stack_pointer() const { return stack_pointer_; }

  Verdict Judge() const {
    const ByteMemory memory(stack_pointer_, std::as_bytes(std::span(words_)));
    auto verdict = JudgeStack(SomeRules(), memory, {kMainStack, kMainStackEnd}, stack_pointer_);
    EXPECT_TRUE(verdict.ok());
    return verdict.ok() ? *verdict : Verdict::kUnknownWait;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t stack_pointer_;
};

TEST(JudgeStackTest, AStackWithoutSignalFramesIsGood) {
  EXPECT_EQ(Stack(64).Judge(), Verdict::kSelfReturn);
  EXPECT_EQ(Stack(40'000).Judge(), Verdict::kSelfReturn);
}

TEST(JudgeStackTest, AHandlerOverAllowedCodeIsGood) {
  EXPECT_EQ(Stack(8192).Put(512, {}).Judge(), Verdict::kSelfReturn);
}

TEST(JudgeStackTest, AHandlerOverMallocIsSeenAtAnyDepth) {
  // Also where one piece of what is read ends and the next begins, and as the last thing on the stack.
  for (const std::uint64_t depth : {0U, 8U, 16U * 1024, 65'304U, 65'400U, 65'528U, 65'536U, 100'000U}) {
    Stack stack(106'496);
    stack.Put(depth, {.interrupted_ip = kLibc + 0x20});
    EXPECT_EQ(stack.Judge(), Verdict::kHandlerOverForbiddenCode) << depth;
  }
  EXPECT_EQ(
      Stack(kFrameWords * 8).Put(0, {.interrupted_ip = kLibc, .interrupted_sp = kMainStackEnd - 8}).Judge(),
      Verdict::kHandlerOverForbiddenCode);
}

TEST(JudgeStackTest, TheRestorerDoesNotMatter) {
  for (const std::uint64_t restorer : {kProgram + 5, std::uint64_t{0}, kHeap, ~std::uint64_t{0}}) {
    Stack stack(8192);
    stack.Put(512, {.interrupted_ip = kLibc + 0x20, .restorer = restorer});
    EXPECT_EQ(stack.Judge(), Verdict::kHandlerOverForbiddenCode) << restorer;
  }
}

TEST(JudgeStackTest, OldAndNewKernelsFlagsAreKnown) {
  for (std::uint64_t flags = 0; flags <= arch::FrameOfSignal{}.flags; ++flags) {
    Stack stack(8192);
    stack.Put(512, {.interrupted_ip = kLibc + 0x20, .flags = flags});
    EXPECT_EQ(stack.Judge(), Verdict::kHandlerOverForbiddenCode) << flags;
  }
}

TEST(JudgeStackTest, AHandlerOverTheVdsoOrUnknownCodeIsNotGood) {
  for (const std::uint64_t ip : {kVdso + 8, std::uint64_t{0}, kHeap + 8}) {
    EXPECT_EQ(Stack(8192).Put(512, {.interrupted_ip = ip}).Judge(), Verdict::kHandlerOverForbiddenCode) << ip;
  }
}

TEST(JudgeStackTest, AHandlerOverAHandlerOverMallocIsSeen) {
  Stack stack(32'768);
  stack.Put(512, {}).Put(20'000, {.interrupted_ip = kLibc + 0x20});
  EXPECT_EQ(stack.Judge(), Verdict::kHandlerOverForbiddenCode);
}

TEST(JudgeStackTest, AnAlternateStackInsideTheOwnStackIsForeign) {
  Stack stack(32'768);
  stack.Put(512, {.interrupted_sp = stack.stack_pointer() - 4096,
                  .alt_start = stack.stack_pointer() - 1024,
                  .alt_size = 8192});
  EXPECT_EQ(stack.Judge(), Verdict::kForeignStack);
  // Even when the frame does not name it: nothing is interrupted that lies below its own frame.
  Stack unnamed(32'768);
  unnamed.Put(512, {.interrupted_sp = unnamed.stack_pointer() - 4096});
  EXPECT_EQ(unnamed.Judge(), Verdict::kForeignStack);
  // Nor on another stack.
  EXPECT_EQ(Stack(8192).Put(512, {.interrupted_sp = kHeap + 0x1000}).Judge(), Verdict::kForeignStack);
}

TEST(JudgeStackTest, AnAlternateStackInUseIsForeignWhateverItInterrupted) {
  Stack stack(32'768);
  stack.Put(512, {.alt_start = stack.stack_pointer() - 1024, .alt_size = 8192});
  EXPECT_EQ(stack.Judge(), Verdict::kForeignStack);
}

TEST(JudgeStackTest, AnOldFrameOnAnAlternateStackNotInUseIsNoReason) {
  Stack stack(32'768);
  const std::uint64_t alt_start = stack.stack_pointer() + 16'384;
  stack.Put(20'000, {.interrupted_ip = kLibc + 0x20,
                     .interrupted_sp = stack.stack_pointer() + 64,
                     .alt_start = alt_start,
                     .alt_size = 8192});
  EXPECT_EQ(stack.Judge(), Verdict::kSelfReturn);
}

TEST(JudgeStackTest, TooLittleRoomBelowIsRefused) {
  const StackRange stack{kMainStack, kMainStackEnd};
  const std::vector<std::byte> bytes(kMainStackEnd - kMainStack);
  const ByteMemory memory(kMainStack, bytes);
  const auto judge = [&](std::uint64_t free_bytes) {
    return *JudgeStack(SomeRules(), memory, stack, kMainStack + free_bytes);
  };
  EXPECT_EQ(judge(24 * 1024 - 8), Verdict::kLittleStack);
  EXPECT_EQ(judge(0), Verdict::kLittleStack);
  EXPECT_EQ(judge(24 * 1024), Verdict::kSelfReturn);
}

TEST(JudgeStackTest, MoreThanCanBeLookedThroughIsRefused) {
  const StackRange stack{kThreadStack, kThreadStack + (64 << 20)};
  const ByteMemory memory(kThreadStack, {});
  EXPECT_EQ(*JudgeStack(SomeRules(), memory, stack, kThreadStack + (32 << 20)), Verdict::kDeepStack);
}

TEST(JudgeStackTest, AStackThatCannotBeReadIsAnError) {
  const ByteMemory memory(kHeap, {});
  EXPECT_FALSE(JudgeStack(SomeRules(), memory, {kMainStack, kMainStackEnd}, kMainStackEnd - 64).ok());
}

}  // namespace
}  // namespace probing::inject
