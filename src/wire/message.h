// The control protocol between a probe and whoever asks it (probingd, the command line).
//
//   frame   := length:u32 id:u32 field*        length counts what follows it; little-endian
//   field   := key_size:u16 value_size:u32 key value
//
// A request has the field "verb"; the answer carries the request's id and either the fields
// of the answer or "error" (with "code" and "hint"). Values are bytes; numbers are decimal
// text. It is this plain because one end of it lives inside somebody's training job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::wire {

inline constexpr std::uint32_t kMaxFrameBytes = 64U << 20;
// What a target says about itself unasked, on the connection that stays open, is short.
inline constexpr std::uint32_t kMaxShortFrameBytes = 64U << 10;
inline constexpr std::size_t kMaxFields = 4096;  // of one message; an empty field takes 6 bytes on the wire

class Message {
 public:
  explicit Message(std::uint32_t id = 0) : id_(id) {}
  static Message Request(std::uint32_t id, std::string_view verb);
  static Message Failure(std::uint32_t id, const Error& error);

  std::uint32_t id() const { return id_; }
  // The same fields under another id.
  Message WithId(std::uint32_t id) const;

  Message& Set(std::string_view key, std::string_view value);
  Message& Set(std::string_view key, std::int64_t value);

  // "" when there is no such field; Has() tells the difference.
  std::string_view Get(std::string_view key) const;
  std::int64_t GetNumber(std::string_view key, std::int64_t otherwise = 0) const;
  bool Has(std::string_view key) const;

  using Fields = std::vector<std::pair<std::string, std::string>>;
  const Fields& fields() const { return fields_; }

  // The Error of a Failure, nothing for other messages.
  std::optional<Error> failure() const;

  std::string Encode() const;

 private:
  friend class Decoder;
  std::uint32_t id_;
  Fields fields_;
};

// Takes bytes as they arrive and gives back whole messages. Content is untrusted: a frame that
// lies about its sizes is an error, after which the connection has to be dropped.
class Decoder {
 public:
  explicit Decoder(std::uint32_t max_frame_bytes = kMaxFrameBytes) : max_frame_bytes_(max_frame_bytes) {}
  void Append(std::string_view bytes) { buffer_ += bytes; }
  // nullopt: more bytes are needed.
  Result<std::optional<Message>> Next();

 private:
  std::uint32_t max_frame_bytes_;
  std::string buffer_;
};

// Sends one request on a connected stream socket and waits for its answer.
Result<Message> Call(int socket_fd, const Message& request, std::int64_t timeout_ms);

// The same for an answer that comes with a descriptor (the verb "rings"), which is the caller's then
// and stays usable when the target has died. A failure the probe reports is the Error.
// REQUIRES: nobody else reads from the socket.
Result<ScopedFd> CallForFd(int socket_fd, const Message& request, std::int64_t timeout_ms);

// recv(2) without waiting. Keeps the last descriptor that came along and closes all others.
ssize_t ReceiveWithFd(int socket_fd, char* buffer, std::size_t size, ScopedFd& received);

// Sends as much of `bytes` as the socket takes, with a descriptor attached to the first of them.
// As send(2): the number of bytes, or −1 and errno.
ssize_t SendWithFd(int socket_fd, std::string_view bytes, int fd);

}  // namespace probing::wire
