#include "wire/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>

#include "base/clock.h"

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
  const std::string_view text = Get(key);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
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
  if (length > kMaxFrameBytes || length < sizeof(std::uint32_t)) {
    return Error{Code::kFailed, "control protocol: a frame of " + std::to_string(length) + " bytes", ""};
  }
  if (in.size() < length) return std::optional<Message>();
  std::string_view body = in.substr(0, length);
  Message message;
  Take(body, message.id_);
  while (!body.empty()) {
    std::uint16_t key_size = 0;
    std::uint32_t value_size = 0;
    auto& [key, value] = message.fields_.emplace_back();
    if (!Take(body, key_size) || !Take(body, value_size) || !TakeBytes(body, key_size, key) ||
        !TakeBytes(body, value_size, value)) {
      return Error{Code::kFailed, "control protocol: a field reaches beyond its frame", ""};
    }
  }
  buffer_.erase(0, sizeof(length) + length);
  return std::optional<Message>(std::move(message));
}

Result<Message> Call(int socket_fd, const Message& request, std::int64_t timeout_ms) {
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
      const ssize_t got = recv(socket_fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
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

}  // namespace probing::wire
