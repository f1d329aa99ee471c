#include "cluster/plain_socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "net/dial.h"

namespace probing::cluster {

Result<PlainSocket> PlainSocket::Dial(const wire::Address& address, const Deadline& deadline) {
  ASSIGN_OR_RETURN(ScopedFd fd, net::DialTcp(address, deadline.left_ms()));
  return PlainSocket(std::move(fd), address.ToText(), deadline);
}

// Requests are small: they fit into the socket's buffer.
Result<void> PlainSocket::Write(std::string_view data) const { return WriteAll(fd_.get(), data); }

Result<std::string> PlainSocket::ReadSome(std::size_t size) const {
  pollfd ready{fd_.get(), POLLIN, 0};
  int n = 0;
  while ((n = poll(&ready, 1, deadline_.left_ms())) < 0 && errno == EINTR) {
  }
  if (n == 0) return Error{Code::kTimeout, name_ + " did not answer in time", ""};
  std::array<char, 16384> bytes;
  const ssize_t got = recv(fd_.get(), bytes.data(), std::min(size, bytes.size()), 0);
  if (got < 0) return ErrnoError("read from " + name_);
  return std::string(bytes.data(), static_cast<std::size_t>(got));
}

Result<std::string> PlainSocket::Read(std::size_t size) const {
  std::string all;
  while (all.size() < size) {
    ASSIGN_OR_RETURN(const std::string part, ReadSome(size - all.size()));
    if (part.empty()) return Error{Code::kFailed, name_ + " hung up", ""};
    all += part;
  }
  return all;
}

Result<std::string> PlainSocket::ReadToEnd(std::size_t max_bytes) const {
  std::string all;
  while (true) {
    ASSIGN_OR_RETURN(const std::string part, ReadSome(max_bytes));
    if (part.empty()) return all;
    all += part;
    if (all.size() > max_bytes)
      return Error{Code::kFailed, name_ + " answered more than " + std::to_string(max_bytes) + " bytes", ""};
  }
}

std::string PlainSocket::LocalHost() const {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  std::array<char, NI_MAXHOST> host{};
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (getsockname(fd_.get(), address, &size) != 0) return "";
  if (getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return host.data();
}

}  // namespace probing::cluster
