#include "torch/guarded_call.h"

#include <dlfcn.h>

#include <cstdint>

#include "arch/routines.h"

namespace probing::torch {

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

// What an unwinder asks at the frame of probing_call_guarded: stop here, and go on at probing_after_a_throw.
extern "C" {
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

}  // namespace probing::torch
