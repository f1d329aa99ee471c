// The few instructions of ours that run in the target before the library does: load it, say how
// that went, leave. Position-independent; copied from here into the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace probing::inject {

// What the stub is given and what it answers; lives on the helper thread's stack. When done, the
// stub writes it to the library's memfd at `mailbox_offset`, where the injector sees it.
struct LoaderCall {
  std::uint64_t dlopen = 0;
  std::uint64_t dlerror = 0;  // may be 0
  std::uint64_t munmap = 0;
  std::uint64_t flags = 0;
  std::uint64_t stub_address = 0;
  std::uint64_t mailbox_offset = 0;
  std::uint64_t fd = 0;

  std::uint64_t handle = 0;  // what dlopen returned
  std::uint64_t done = 0;    // 1 when the rest is valid
  char path[40] = {};
  char error[512] = {};  // what dlerror returned
};

inline constexpr std::size_t kStubPageBytes = 4096;

std::span<const std::byte> LoaderStub();

}  // namespace probing::inject
