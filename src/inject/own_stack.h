// Which stack a thread is on, how much of it is free, and what its signal handlers interrupted.
//
// A borrowed thread needs some kilobytes below its stack pointer. Only a stack that the thread was
// started on has known ends: the kernel's [stack] for the main thread, the block that glibc's thread
// descriptor names for all others. An alternate signal stack or a coroutine's lies in the heap or
// wherever the program likes, with somebody's data right below it: such a thread is not borrowed.
//
// All of it works on values, so that tests can construct every case.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "inject/safe_point.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::inject {

// Addresses that a stack may use; it grows down from `end`.
struct StackRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  bool Contains(std::uint64_t address) const { return address >= start && address < end; }
  bool operator==(const StackRange&) const = default;
};

// What is read of a thread descriptor; glibc's is 2.3 KB.
inline constexpr std::size_t kDescriptorBytes = 2304;

// The stack of a thread that pthread_create started. `descriptor` is what lies arch::kDescriptorBelow bytes
// below `thread_pointer`. glibc's order of (block, size, guard) is the same in all versions, its place is
// not, so it is recognised: the descriptor itself lies at the top of the block. Nothing when there is no such
// thing.
std::optional<StackRange> StackOfDescriptor(std::uint64_t thread_pointer,
                                            std::span<const std::uint64_t> descriptor);

// The free and used part of the stack that a thread was started on. Nothing when it is on another one now.
// `from_descriptor` is StackOfDescriptor(): a main thread has none, unless it is the child of a fork by
// another thread.
std::optional<StackRange> OwnStack(const process::Maps& maps, std::optional<StackRange> from_descriptor,
                                   std::uint64_t stack_pointer, bool is_main_thread);

// What a thread on that stack may be used for: kSelfReturn when nothing speaks against it. Searches all of
// the used part for the frames that the kernel leaves when it calls a signal handler, whatever restorer they
// name, and applies the rule to the code that each of them interrupted.
// A frame of a handler that has returned may still lie there: then a good thread is refused, never the
// reverse.
Result<Verdict> JudgeStack(const SafePointRules& rules, const process::Memory& memory,
                           const StackRange& own_stack, std::uint64_t stack_pointer);

}  // namespace probing::inject
