// ForkGuard: one word that is 1 in the process that made it and 0 in every child of it.
//
// The rings of a parent are not mapped in its children (MADV_DONTFORK), so whoever wants to touch
// one looks here first. The word lies in a page which the kernel empties at every fork
// (MADV_WIPEONFORK, Linux 4.14), also at a bare clone() that runs no fork handlers. Where that is
// missing the process id is asked for instead, which costs a system call.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace probing::ring {

class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

  // 0, or the errno of what failed. Once, before anything else.
  int Arm();

  // True in the process of Arm() until Disarm().
  bool Armed() const {
    return word_->load(std::memory_order_relaxed) == kArmed && (pid_ == 0 || pid_ == getpid());
  }
  // False in a forked child: nothing of the parent's is mapped here.
  bool SameProcess() const {
    return word_->load(std::memory_order_relaxed) != 0 && (pid_ == 0 || pid_ == getpid());
  }
  void Disarm() {
    if (SameProcess()) word_->store(kDisarmed, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kArmed = 1;
  static constexpr std::uint32_t kDisarmed = 2;

  std::atomic<std::uint32_t>* word_ = nullptr;
  pid_t pid_ = 0;  // only where the kernel cannot wipe
};

}  // namespace probing::ring
