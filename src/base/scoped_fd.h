// ScopedFd: owns a file descriptor, closes it at the end of the scope.
#pragma once

#include <unistd.h>

#include <utility>

namespace probing {

class ScopedFd {
 public:
  ScopedFd() = default;
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(ScopedFd&& other) noexcept : fd_(other.Release()) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~ScopedFd() { Reset(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }

  // Gives the descriptor away; the caller closes it.
  int Release() { return std::exchange(fd_, -1); }

  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace probing
