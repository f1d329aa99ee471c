// Whether the kernel's own messages (its log, its process events) are about the pids that we see: they name
// processes by the numbers of the first pid namespace, which mean somebody else in a container.
#pragma once

#include <sys/stat.h>

namespace probing::observe {

inline bool KernelMeansOurPids() {
  constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO of the kernel
  struct stat ours{};
  return stat("/proc/self/ns/pid", &ours) == 0 && ours.st_ino == kFirstPidNamespace;
}

}  // namespace probing::observe
