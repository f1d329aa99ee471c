#include "inject/own_stack.h"

#include <algorithm>
#include <array>
#include <vector>

#include "arch/native.h"

namespace probing::inject {
namespace {

constexpr std::uint64_t kMinimumFreeBytes = 24 * 1024;  // a signal frame with AMX state + pthread_create
// Looking through more than this would hold the thread for milliseconds.
constexpr std::uint64_t kMaximumUsedBytes = 8 << 20;
constexpr std::uint64_t kChunkBytes = 64 * 1024;

using arch::FrameWords;
using Words = std::span<const std::uint64_t>;

Verdict JudgeFrame(const SafePointRules& rules, const FrameWords& frame, std::uint64_t address,
                   const StackRange& own_stack, std::uint64_t stack_pointer) {
  // An alternate stack may be a local variable of the program's. The kernel leaves it only when the handler
  // returns, so a frame on one that the thread is not on is an old one.
  const auto on_alternate_stack = [&](std::uint64_t at) {
    return at - frame.alternate_start() < frame.alternate_bytes();
  };
  if (on_alternate_stack(stack_pointer)) return Verdict::kForeignStack;
  if (on_alternate_stack(address)) return Verdict::kSelfReturn;
  // Anywhere else the kernel puts a frame below what it interrupts.
  const bool below_interrupted = own_stack.Contains(frame.stack_pointer()) && frame.stack_pointer() > address;
  if (!below_interrupted) return Verdict::kForeignStack;
  return MayInterrupt(rules, frame.instruction_pointer()) ? Verdict::kSelfReturn
                                                          : Verdict::kHandlerOverForbiddenCode;
}

}  // namespace

std::optional<StackRange> StackOfDescriptor(std::uint64_t thread_pointer, Words descriptor) {
  for (std::size_t i = 0; i + 2 < descriptor.size(); ++i) {
    const std::uint64_t block = descriptor[i], size = descriptor[i + 1], guard = descriptor[i + 2];
    const bool is_below = block != 0 && block < thread_pointer;
    const bool ends_above = is_below && size > thread_pointer - block &&
                            size - (thread_pointer - block) <= arch::kMaximumAboveDescriptor;
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
    words.resize(std::min<std::uint64_t>(left, kChunkBytes / 8 + FrameWords::kWords));
    RETURN_IF_ERROR(memory.Read({at}, std::as_writable_bytes(std::span(words))));
    for (std::size_t i = 0; i + FrameWords::kWords <= words.size(); ++i) {
      const FrameWords frame(Words(words).subspan(i, FrameWords::kWords));
      if (!frame.IsFrame(at + i * 8)) continue;
      const Verdict verdict = JudgeFrame(rules, frame, at + i * 8, own_stack, stack_pointer);
      if (verdict != Verdict::kSelfReturn) return verdict;
    }
  }
  return Verdict::kSelfReturn;
}

}  // namespace probing::inject
