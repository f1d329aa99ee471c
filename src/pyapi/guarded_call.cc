#include "pyapi/guarded_call.h"

#include <dlfcn.h>

#include <cstdint>

namespace probing::pyapi {

#ifdef __x86_64__

namespace {

// Of the Itanium C++ ABI.
constexpr int kSearchPhase = 1;
constexpr int kHandlerFrame = 4;
constexpr int kForced = 8;  // pthread_exit: not to be stopped
constexpr int kCaughtByOthers = 1;
constexpr int kHandlerFound = 6;
constexpr int kInstallContext = 7;
constexpr int kContinue = 8;

struct UnwindException {
  std::uint64_t exception_class;
  void (*cleanup)(int reason, UnwindException* exception);
};

using SetIp = void (*)(void* context, std::uintptr_t address);
SetIp set_ip = nullptr;
UnwindException* caught = nullptr;

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) int probing_call_guarded(void (*function)(void*), void* argument);
__attribute__((visibility("hidden"))) void probing_after_a_throw();

__attribute__((visibility("hidden"), used)) int probing_stop_unwinding(int /*version*/, int actions,
                                                                       std::uint64_t /*exception_class*/,
                                                                       UnwindException* exception,
                                                                       void* context) {
  if ((actions & kForced) != 0) return kContinue;
  if ((actions & kSearchPhase) != 0) return kHandlerFound;
  if ((actions & kHandlerFrame) == 0) return kContinue;
  caught = exception;
  set_ip(context, reinterpret_cast<std::uintptr_t>(&probing_after_a_throw));
  return kInstallContext;
}
}

// 1 when the function returned. An unwinder finds the personality in the frame's description, stops here and
// goes on at probing_after_a_throw with the stack as it is behind the call.
asm(R"(
  .text
  .hidden probing_call_guarded
  .globl probing_call_guarded
  .type probing_call_guarded, @function
probing_call_guarded:
  .cfi_startproc
  .cfi_personality 0x1b, probing_stop_unwinding
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  movq %rdi, %rax
  movq %rsi, %rdi
  callq *%rax
  movl $1, %eax
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  retq
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  .hidden probing_after_a_throw
  .globl probing_after_a_throw
probing_after_a_throw:
  xorl %eax, %eax
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  retq
  .cfi_endproc
  .size probing_call_guarded, .-probing_call_guarded
)");

bool PrepareGuardedCall(void* library) {
  void* found = dlsym(RTLD_DEFAULT, "_Unwind_SetIP");
  if (found == nullptr) found = dlsym(library, "_Unwind_SetIP");
  set_ip = reinterpret_cast<SetIp>(found);
  return set_ip != nullptr;
}

bool GuardedCall(void (*function)(void*), void* argument) {
  caught = nullptr;
  const bool returned = probing_call_guarded(function, argument) == 1;
  if (caught != nullptr && caught->cleanup != nullptr) caught->cleanup(kCaughtByOthers, caught);
  caught = nullptr;
  return returned;
}

#else

bool PrepareGuardedCall(void*) { return false; }
bool GuardedCall(void (*)(void*), void*) { return false; }

#endif

}  // namespace probing::pyapi
