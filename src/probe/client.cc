#include "probe/client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "probe/lifecycle.h"

namespace probing::probe {

void CloseOwn(ScopedFd& fd) {
  const NoForkNow hold;
  ForkClosed::Remove(fd.get());
  fd.Reset();
}

bool Client::Receive() {
  std::array<char, 16384> buffer;
  const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  decoder_.Append({buffer.data(), static_cast<std::size_t>(n)});
  return true;
}

bool Client::Send(std::string_view frame, int attached) {
  if (attached >= 0) {
    attached_ = attached;
    attached_at_ = outgoing_.size();
  }
  outgoing_ += frame;
  return Flush();
}

bool Client::Flush() {
  while (!outgoing_.empty()) {
    const bool with_fd = attached_ >= 0 && attached_at_ == 0;
    // Up to the byte that has the descriptor, which must be the first of its message.
    const std::string_view next =
        std::string_view(outgoing_).substr(0, attached_ >= 0 && !with_fd ? attached_at_ : std::string::npos);
    const ssize_t n = with_fd ? wire::SendWithFd(socket_.get(), next, attached_)
                              : send(socket_.get(), next.data(), next.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (with_fd) attached_ = -1;
    outgoing_.erase(0, static_cast<std::size_t>(n));
    if (attached_ >= 0) attached_at_ -= static_cast<std::size_t>(n);
  }
  return true;
}

void Client::Close() {
  if (gone_) return;
  gone_ = true;
  CloseOwn(socket_);
}

}  // namespace probing::probe
