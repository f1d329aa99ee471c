#include "net/dial.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>

#include "base/clock.h"

namespace probing::net {
namespace {

// 0 or an errno.
int Connect(int fd, const addrinfo& where, const Deadline& deadline) {
  if (connect(fd, where.ai_addr, where.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    pollfd ready{fd, POLLOUT, 0};
    const int n = poll(&ready, 1, deadline.left_ms());
    if (n == 0) return ETIMEDOUT;
    if (n < 0 && errno != EINTR) return errno;
    if (n < 0) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
  }
}

}  // namespace

Result<ScopedFd> DialTcp(const wire::Address& address, std::int64_t timeout_ms) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wish, &found);
  if (failed != 0) {
    return Error{Code::kNotFound, "cannot find " + address.host + ": " + gai_strerror(failed),
                 "is the name right?"};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  int error = ENOENT;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    ScopedFd fd(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) continue;
    error = Connect(fd.get(), *each, deadline);
    if (error != 0) continue;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
    return fd;
  }
  Error failure = ErrnoError("connect to " + address.ToText(), error);
  if (error == ETIMEDOUT) failure.code = Code::kTimeout;
  if (error == ECONNREFUSED) failure.code = Code::kNotFound;
  return failure;
}

}  // namespace probing::net
