#include "ring/fork_guard.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

namespace probing::ring {
namespace {

constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK; older headers do not know it
constexpr std::size_t kPageBytes = 4096;

}  // namespace

int ForkGuard::Arm() {
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return errno;
  if (madvise(page, kPageBytes, kWipeOnFork) != 0) pid_ = getpid();
  word_ = new (page) std::atomic<std::uint32_t>(kArmed);
  return 0;
}

ForkGuard::~ForkGuard() {
  if (word_ != nullptr) munmap(word_, kPageBytes);
}

}  // namespace probing::ring
