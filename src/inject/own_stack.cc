#include "inject/own_stack.h"

#include <algorithm>
#include <array>
#include <vector>

namespace probing::inject {
namespace {

constexpr std::uint64_t kMinimumFreeBytes = 24 * 1024;  // a signal frame with AMX state + pthread_create
// Looking through more than this would hold the thread for milliseconds.
constexpr std::uint64_t kMaximumUsedBytes = 8 << 20;
constexpr std::uint64_t kChunkBytes = 64 * 1024;

// A descriptor is followed by no more than the alignment of thread-local storage before its block ends.
constexpr std::uint64_t kMaximumAboveDescriptor = 16 * 1024;

// A kernel's signal frame, in words from its uc_flags on (struct ucontext); the word before is the restorer.
constexpr std::size_t kFlags = 0, kLink = 1, kAltStart = 2, kAltSize = 4, kStackPointer = 20,
                      kInstructionPointer = 21, kEflags = 22, kSegments = 23, kVectorState = 28;
constexpr std::size_t kFrameWords = 29;
constexpr std::uint64_t kKnownFlags = 7;  // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
constexpr std::uint64_t kUserCodeSegment = 0x33;
constexpr std::uint64_t kAlwaysSetEflags = 0x202;  // bit 1 and "interrupts enabled"
constexpr std::uint64_t kMaximumEflags = 1 << 22;
constexpr std::uint64_t kMaximumFrameBytes = 64 * 1024;

using Words = std::span<const std::uint64_t>;

// What the kernel writes into every frame and a handler has no reason to change.
bool IsSignalFrame(Words frame, std::uint64_t address) {
  const std::uint64_t vector_state = frame[kVectorState];
  return frame[kFlags] <= kKnownFlags && frame[kLink] == 0 &&
         (frame[kSegments] & 0xffff) == kUserCodeSegment &&
         (frame[kEflags] & kAlwaysSetEflags) == kAlwaysSetEflags && frame[kEflags] < kMaximumEflags &&
         (vector_state == 0 || vector_state - address < kMaximumFrameBytes);
}

Verdict JudgeFrame(const SafePointRules& rules, Words frame, std::uint64_t address,
                   const StackRange& own_stack, std::uint64_t stack_pointer) {
  // An alternate stack may be a local variable of the program's. The kernel leaves it only when the handler
  // returns, so a frame on one that the thread is not on is an old one.
  const auto on_alternate_stack = [&](std::uint64_t at) { return at - frame[kAltStart] < frame[kAltSize]; };
  if (on_alternate_stack(stack_pointer)) return Verdict::kForeignStack;
  if (on_alternate_stack(address)) return Verdict::kSelfReturn;
  // Anywhere else the kernel puts a frame below what it interrupts.
  const bool below_interrupted = own_stack.Contains(frame[kStackPointer]) && frame[kStackPointer] > address;
  if (!below_interrupted) return Verdict::kForeignStack;
  return MayInterrupt(rules, frame[kInstructionPointer]) ? Verdict::kSelfReturn
                                                         : Verdict::kHandlerOverForbiddenCode;
}

}  // namespace

std::optional<StackRange> StackOfDescriptor(std::uint64_t thread_pointer, Words descriptor) {
  for (std::size_t i = 0; i + 2 < descriptor.size(); ++i) {
    const std::uint64_t block = descriptor[i], size = descriptor[i + 1], guard = descriptor[i + 2];
    const bool is_below = block != 0 && block < thread_pointer;
    const bool ends_above = is_below && size > thread_pointer - block &&
                            size - (thread_pointer - block) <= kMaximumAboveDescriptor;
    if (ends_above && guard < thread_pointer - block) return StackRange{block + guard, thread_pointer};
  }
  return std::nullopt;
}

std::optional<StackRange> OwnStack(const process::Maps& maps, std::optional<StackRange> from_descriptor,
                                   std::uint64_t stack_pointer, bool is_main_thread) {
  const process::Mapping* mapping = maps.Find(stack_pointer);
  if (mapping == nullptr || !mapping->writable) return std::nullopt;
  StackRange stack{mapping->start, mapping->end};
  if (from_descriptor) {
    stack = {std::max(mapping->start, from_descriptor->start), from_descriptor->end};
  } else if (!is_main_thread || mapping->path != "[stack]") {
    return std::nullopt;
  }
  return stack.Contains(stack_pointer) ? std::optional(stack) : std::nullopt;
}

Result<Verdict> JudgeStack(const SafePointRules& rules, const process::Memory& memory,
                           const StackRange& own_stack, std::uint64_t stack_pointer) {
  if (stack_pointer - own_stack.start < kMinimumFreeBytes) return Verdict::kLittleStack;
  if (own_stack.end - stack_pointer > kMaximumUsedBytes) return Verdict::kDeepStack;
  // Chunks overlap, so that no frame is cut in two.
  std::vector<std::uint64_t> words;
  const std::uint64_t first = (stack_pointer + 7) & ~std::uint64_t{7};
  for (std::uint64_t at = first; at < own_stack.end; at += kChunkBytes) {
    const std::uint64_t left = (own_stack.end - at) / 8;
    words.resize(std::min<std::uint64_t>(left, kChunkBytes / 8 + kFrameWords));
    RETURN_IF_ERROR(memory.Read({at}, std::as_writable_bytes(std::span(words))));
    for (std::size_t i = 0; i + kFrameWords <= words.size(); ++i) {
      const Words frame = Words(words).subspan(i, kFrameWords);
      if (!IsSignalFrame(frame, at + i * 8)) continue;
      const Verdict verdict = JudgeFrame(rules, frame, at + i * 8, own_stack, stack_pointer);
      if (verdict != Verdict::kSelfReturn) return verdict;
    }
  }
  return Verdict::kSelfReturn;
}

}  // namespace probing::inject
