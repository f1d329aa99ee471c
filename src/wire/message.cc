#include "wire/message.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"

namespace probing::wire {
namespace {

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
bool Take(std::string_view& in, T& value) {
  if (in.size() < sizeof(value)) return false;
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}

bool TakeBytes(std::string_view& in, std::size_t size, std::string& out) {
  if (in.size() < size) return false;
  out.assign(in.substr(0, size));
  in.remove_prefix(size);
  return true;
}

}  // namespace

Message Message::Request(std::uint32_t id, std::string_view verb) { return Message(id).Set("verb", verb); }

Message Message::Failure(std::uint32_t id, const Error& error) {
  Message message(id);
  message.Set("error", error.message).Set("hint", error.hint);
  message.Set("code", static_cast<std::int64_t>(error.code));
  return message;
}

Message Message::WithId(std::uint32_t id) const {
  Message copy = *this;
  copy.id_ = id;
  return copy;
}

Message& Message::Set(std::string_view key, std::string_view value) {
  fields_.emplace_back(key, value);
  return *this;
}

Message& Message::Set(std::string_view key, std::int64_t value) { return Set(key, std::to_string(value)); }

std::string_view Message::Get(std::string_view key) const {
  for (const auto& [name, value] : fields_) {
    if (name == key) return value;
  }
  return {};
}

std::int64_t Message::GetNumber(std::string_view key, std::int64_t otherwise) const {
  std::int64_t value = 0;
  return ParseNumber(Get(key), value) ? value : otherwise;
}

bool Message::Has(std::string_view key) const {
  for (const auto& [name, value] : fields_) {
    if (name == key) return true;
  }
  return false;
}

std::optional<Error> Message::failure() const {
  if (!Has("error")) return std::nullopt;
  const std::int64_t code = GetNumber("code", 1);
  const bool known = code >= 1 && code <= static_cast<std::int64_t>(Code::kPartial);
  return Error{known ? static_cast<Code>(code) : Code::kFailed, std::string(Get("error")),
               std::string(Get("hint"))};
}

std::string Message::Encode() const {
  std::string body;
  Put(body, id_);
  for (const auto& [key, value] : fields_) {
    Put(body, static_cast<std::uint16_t>(key.size()));
    Put(body, static_cast<std::uint32_t>(value.size()));
    body += key;
    body += value;
  }
  std::string frame;
  Put(frame, static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

Result<std::optional<Message>> Decoder::Next() {
  std::string_view in = buffer_;
  std::uint32_t length = 0;
  if (!Take(in, length)) return std::optional<Message>();
  if (length > max_frame_bytes_ || length < sizeof(std::uint32_t)) {
    return Error{Code::kFailed, "control protocol: a frame of " + std::to_string(length) + " bytes", ""};
  }
  if (in.size() < length) return std::optional<Message>();
  std::string_view body = in.substr(0, length);
  Message message;
  Take(body, message.id_);
  while (!body.empty()) {
    std::uint16_t key_size = 0;
    std::uint32_t value_size = 0;
    if (message.fields_.size() == kMaxFields)
      return Error{Code::kFailed, "control protocol: a message of too many fields", ""};
    auto& [key, value] = message.fields_.emplace_back();
    if (!Take(body, key_size) || !Take(body, value_size) || !TakeBytes(body, key_size, key) ||
        !TakeBytes(body, value_size, value)) {
      return Error{Code::kFailed, "control protocol: a field reaches beyond its frame", ""};
    }
  }
  buffer_.erase(0, sizeof(length) + length);
  return std::optional<Message>(std::move(message));
}

ssize_t ReceiveWithFd(int socket_fd, char* buffer, std::size_t size, ScopedFd& received) {
  iovec bytes{buffer, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0) return got;
  for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr; entry = CMSG_NXTHDR(&header, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    // Room for one is, by its alignment, room for two: the sender decides how many come.
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(fd), sizeof(fd));
      received.Reset(fd);
    }
  }
  return got;
}

namespace {

Result<Message> CallAndReceive(int socket_fd, const Message& request, std::int64_t timeout_ms,
                               ScopedFd& received) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  const std::string frame = request.Encode();
  std::string_view rest = frame;
  Decoder decoder;
  while (true) {
    pollfd ready{socket_fd, static_cast<short>(rest.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    const int n = poll(&ready, 1, deadline.left_ms());
    if (n < 0 && errno != EINTR) return ErrnoError("wait for the probe");
    if (n == 0) return Error{Code::kTimeout, "the probe did not answer in time", ""};
    if (n > 0 && (ready.revents & POLLOUT) != 0) {
      const ssize_t sent = send(socket_fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return ErrnoError("send to the probe");
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    if (n > 0 && (ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      std::array<char, 65536> buffer;
      const ssize_t got = ReceiveWithFd(socket_fd, buffer.data(), buffer.size(), received);
      if (got == 0) return Error{Code::kNotFound, "the probe closed the connection", "did the target end?"};
      if (got < 0 && errno != EAGAIN && errno != EINTR) return ErrnoError("read from the probe");
      if (got > 0) decoder.Append({buffer.data(), static_cast<std::size_t>(got)});
      // An earlier call that timed out may have left its answer before ours.
      while (true) {
        ASSIGN_OR_RETURN(std::optional<Message> answer, decoder.Next());
        if (!answer.has_value()) break;
        if (answer->id() == request.id()) return std::move(*answer);
      }
    }
  }
}

}  // namespace

Result<Message> Call(int socket_fd, const Message& request, std::int64_t timeout_ms) {
  ScopedFd unwanted;
  return CallAndReceive(socket_fd, request, timeout_ms, unwanted);
}

Result<ScopedFd> CallForFd(int socket_fd, const Message& request, std::int64_t timeout_ms) {
  ScopedFd received;
  ASSIGN_OR_RETURN(const Message answer, CallAndReceive(socket_fd, request, timeout_ms, received));
  if (std::optional<Error> failure = answer.failure()) return std::move(*failure);
  if (!received.valid()) {
    return Error{Code::kFailed, "the probe answered without the descriptor that was asked for",
                 "is the limit of open files reached here? see `ulimit -n`"};
  }
  return received;
}

ssize_t SendWithFd(int socket_fd, std::string_view bytes, int fd) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* entry = CMSG_FIRSTHDR(&header);
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = SCM_RIGHTS;
  entry->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(entry), &fd, sizeof(fd));
  return sendmsg(socket_fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace probing::wire
