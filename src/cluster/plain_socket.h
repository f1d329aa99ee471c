// A TCP connection to something that is no probingd and speaks no TLS: etcd, torch's store. What it sends is
// untrusted, and every wait has a deadline.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"
#include "wire/address.h"

namespace probing::cluster {

class PlainSocket {
 public:
  // Blocks longer than the deadline only to look up a name.
  static Result<PlainSocket> Dial(const wire::Address& address, const Deadline& deadline);

  Result<void> Write(std::string_view data) const;
  // Exactly so many bytes.
  Result<std::string> Read(std::size_t size) const;
  // All that comes until the other side ends it; more than max_bytes is an error.
  Result<std::string> ReadToEnd(std::size_t max_bytes) const;

  // The address that this machine has for the other one, without a port.
  std::string LocalHost() const;

 private:
  PlainSocket(ScopedFd fd, std::string name, const Deadline& deadline)
      : fd_(std::move(fd)), name_(std::move(name)), deadline_(deadline) {}

  // What has come, at most `size` bytes; "" at the end.
  Result<std::string> ReadSome(std::size_t size) const;

  ScopedFd fd_;
  std::string name_;
  Deadline deadline_;
};

}  // namespace probing::cluster
