#include "query/protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace probing::query {
namespace {

struct Header {
  FrameType type;
  std::uint32_t files;
  std::uint64_t size;
};

Error Closed() { return Error{Code::kNotFound, "the other side of the query connection has gone", ""}; }

// After a send() that failed: nothing when it is worth another one. Whoever waits for answers without a
// thread has made the socket one that does not block.
Result<void> WaitWritable(int socket) {
  if (errno == EPIPE || errno == ECONNRESET) return Closed();
  if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
    return ErrnoError("send to the query worker");
  pollfd waiting{socket, POLLOUT, 0};
  if (errno != EINTR && poll(&waiting, 1, -1) < 0 && errno != EINTR) return ErrnoError("poll");
  return {};
}

Result<void> SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      RETURN_IF_ERROR(WaitWritable(socket));
    } else {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  return {};
}

Result<void> WaitReadable(int socket, const Deadline& deadline) {
  while (true) {
    pollfd waiting{socket, POLLIN, 0};
    const int ready = poll(&waiting, 1, deadline.left_ms());
    if (ready > 0) return {};
    if (ready == 0 && deadline.passed()) return Error{Code::kTimeout, "no answer in time", ""};
    if (ready < 0 && errno != EINTR) return ErrnoError("poll");
  }
}

Result<void> ReceiveAll(int socket, char* to, std::size_t size, const Deadline& deadline) {
  while (size > 0) {
    const ssize_t got = recv(socket, to, size, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      RETURN_IF_ERROR(WaitReadable(socket, deadline));
      continue;
    }
    if (got < 0 && errno != ECONNRESET) return ErrnoError("receive from the query worker");
    if (got <= 0) return Closed();
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return {};
}

// The first byte of the header brings the descriptors.
Result<Header> ReceiveHeader(int socket, std::vector<ScopedFd>& files, const Deadline& deadline) {
  Header header{};
  iovec part{&header, sizeof(header)};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFilesInFrame * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  // Mostly it is there already.
  while ((got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      RETURN_IF_ERROR(WaitReadable(socket, deadline));
    else if (errno != EINTR)
      break;
  }
  if (got < 0 && errno != ECONNRESET) return ErrnoError("receive from the query worker");
  if (got <= 0) return Closed();
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      files.emplace_back(fd);
    }
  }
  auto* bytes = reinterpret_cast<char*>(&header);
  RETURN_IF_ERROR(ReceiveAll(socket, bytes + got, sizeof(header) - static_cast<std::size_t>(got), deadline));
  return header;
}

}  // namespace

Result<bool> AwaitFrame(int socket, int wake_fd, const Deadline& deadline) {
  while (true) {
    pollfd waiting[] = {{socket, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    const int ready = poll(waiting, 2, deadline.left_ms());
    if (ready > 0) return waiting[1].revents == 0;
    if (ready == 0 && deadline.passed()) return Error{Code::kTimeout, "no answer in time", ""};
    if (ready < 0 && errno != EINTR) return ErrnoError("poll");
  }
}

Result<void> SendFrame(int socket, FrameType type, std::string_view payload, const std::vector<int>& files) {
  Header header{type, static_cast<std::uint32_t>(files.size()), payload.size()};
  // In one call, so that the other side wakes up once.
  iovec parts[] = {{&header, sizeof(header)}, {const_cast<char*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFilesInFrame * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!files.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
  }
  ssize_t sent = 0;
  while ((sent = sendmsg(socket, &message, MSG_NOSIGNAL)) < 0) RETURN_IF_ERROR(WaitWritable(socket));
  auto done = static_cast<std::size_t>(sent);
  if (done < sizeof(header)) {
    const auto* bytes = reinterpret_cast<const char*>(&header);
    RETURN_IF_ERROR(SendAll(socket, {bytes + done, sizeof(header) - done}));
    done = sizeof(header);
  }
  return SendAll(socket, payload.substr(done - sizeof(header)));
}

Result<Frame> ReceiveFrame(int socket, const Deadline& deadline) {
  Frame frame;
  ASSIGN_OR_RETURN(const Header header, ReceiveHeader(socket, frame.files, deadline));
  if (header.size > kMaxFrameBytes || header.files != frame.files.size())
    return Error{Code::kFailed, "a message of the query worker is damaged", ""};
  frame.type = header.type;
  frame.payload.resize(header.size);
  RETURN_IF_ERROR(ReceiveAll(socket, frame.payload.data(), header.size, deadline));
  return frame;
}

}  // namespace probing::query
