// Addresses in the target that injection needs, from the target's own mappings and symbol
// tables: its C library may be another one than ours.
#pragma once

#include <string>

#include "inject/safe_point.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::inject {

struct EntryPoints {
  process::RemoteAddress pthread_create;
  process::RemoteAddress usleep;
  process::RemoteAddress munmap;
  process::RemoteAddress dlopen;   // or __libc_dlopen_mode where there is no libdl
  process::RemoteAddress dlerror;  // null with __libc_dlopen_mode
  std::uint64_t dlopen_flags = 0;
  process::RemoteAddress trampoline;           // to rt_sigreturn
  process::RemoteAddress syscall_instruction;  // syscall; …; ret
  SafePointRules rules;
};

// What the process is linked with, as far as injection cares.
enum class Linkage : std::uint8_t { kGlibc, kMusl, kStatic };
Linkage DetectLinkage(const process::Maps& maps);

Result<EntryPoints> FindEntryPoints(const process::Memory& memory, const process::Maps& maps);

}  // namespace probing::inject
