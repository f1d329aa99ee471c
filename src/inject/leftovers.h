// What an injector leaves in a target when it is killed between making the library's memfd and handing
// it to the helper thread: one descriptor and two pages. The next injector removes them.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"

namespace probing::inject {

// The name of the memfd by which the library travels.
inline constexpr std::string_view kMemfdName = "libprobing.so";

// As /proc/PID/maps, /proc/PID/fd and, once loaded, the loader's own list show it.
inline constexpr std::string_view kMemfdPath = "/memfd:libprobing.so (deleted)";

// Makes a system call in the target.
using RemoteSyscall =
    std::function<Result<std::uint64_t>(std::uint64_t number, std::array<std::uint64_t, 6> arguments)>;

// The inode of this process's pid namespace; 0 when it cannot be told.
std::uint64_t OwnPidNamespace();

// Closes and unmaps what killed injectors left in `pid`. A file whose helper thread may still be at work is
// let alone: that thread removes it itself. REQUIRES: the EntryLock of `pid`, and no memfd of this injector.
void RemoveLeftovers(pid_t pid, const RemoteSyscall& call);

}  // namespace probing::inject
