// The few instructions of ours that run in the target before the library does: load it, say how
// that went, leave. Position-independent; copied from here into the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arch/loader_call_offsets.h"
#include "arch/native.h"

namespace probing::arch {

// What the stub is given and what it answers. Lives in the last page of the library's memfd, which the
// target maps behind the stub and the injector sees through its own descriptor.
struct LoaderCall {
  std::uint64_t dlopen = 0;
  std::uint64_t dlerror = 0;  // may be 0
  std::uint64_t munmap = 0;
  std::uint64_t flags = 0;
  std::uint64_t stub_address = 0;  // of both pages
  std::uint64_t fd = 0;

  std::uint64_t handle = 0;  // what dlopen returned
  std::uint64_t done = 0;    // 1 when the rest is valid

  // For a later injector that finds this file because the one that made it was killed.
  std::uint64_t helper_thread = 0;  // as seen from…
  std::uint64_t pid_namespace = 0;  // …this namespace (the inode of /proc/self/ns/pid)

  // REQUIRES: longer than `name`.
  char path[64] = {};
  // What the loader's list shall say instead of the path: a debugger opens each file in that list, and
  // the path leads to a descriptor of whoever opens it.
  char name[32] = {};
  char error[512] = {};  // what dlerror returned
};

// Each is a page of its own.
inline constexpr std::size_t kStubPageBytes = kMaxPageBytes;
inline constexpr std::size_t kMailboxBytes = kMaxPageBytes;

std::span<const std::byte> LoaderStub();

static_assert(offsetof(LoaderCall, dlopen) == PROBING_CALL_DLOPEN);
static_assert(offsetof(LoaderCall, dlerror) == PROBING_CALL_DLERROR);
static_assert(offsetof(LoaderCall, munmap) == PROBING_CALL_MUNMAP);
static_assert(offsetof(LoaderCall, flags) == PROBING_CALL_FLAGS);
static_assert(offsetof(LoaderCall, stub_address) == PROBING_CALL_STUB_ADDRESS);
static_assert(offsetof(LoaderCall, fd) == PROBING_CALL_FD);
static_assert(offsetof(LoaderCall, handle) == PROBING_CALL_HANDLE);
static_assert(offsetof(LoaderCall, done) == PROBING_CALL_DONE);
static_assert(offsetof(LoaderCall, path) == PROBING_CALL_PATH);
static_assert(offsetof(LoaderCall, name) == PROBING_CALL_NAME);
static_assert(offsetof(LoaderCall, error) == PROBING_CALL_ERROR);
static_assert(sizeof(LoaderCall) <= kMailboxBytes && kStubPageBytes + kMailboxBytes == kUnmappedByStub);

}  // namespace probing::arch
