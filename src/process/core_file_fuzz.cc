// A core file: somebody may have sent it by mail.
#include <linux/memfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "process/core_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::process;
  static const int fd = static_cast<int>(syscall(SYS_memfd_create, "core", MFD_CLOEXEC));
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  const auto core = CoreFile::Open("/proc/self/fd/" + std::to_string(fd), "");
  if (!core.ok()) return 0;
  std::array<std::byte, 64> bytes{};
  for (const Mapping& mapping : core->maps.all()) {
    if (mapping.start >= mapping.end) std::abort();
    (void)core->memory->Read({mapping.start}, bytes);
    (void)core->memory->Read({mapping.end - 1}, bytes);
    (void)core->memory->Read({mapping.start + (mapping.end - mapping.start) / 2}, bytes);
  }
  (void)core->maps.Objects();
  return 0;
}
