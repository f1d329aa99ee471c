// A connection to a probingd: a socket on this machine, encrypted to another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"
#include "tls/client.h"
#include "wire/address.h"

namespace probing::net {

// Whether what is said can be read on the way.
enum class Encryption : std::uint8_t { kBeyondThisMachine, kAlways, kNever };

// Whose certificate will do: one that an authority vouches for, or also the one that was shown there first.
enum class Trust : std::uint8_t { kFirstSeen, kAuthority };

struct DialOptions {
  std::int64_t timeout_ms = 0;
  Encryption encryption = Encryption::kBeyondThisMachine;
  std::string who = "probingd";  // is asked, for errors
  Trust trust = Trust::kFirstSeen;
  std::string authority_file;  // PEM, besides the authorities that this machine trusts
};

class Channel {
 public:
  explicit Channel(ScopedFd socket) : socket_(std::move(socket)) {}

  // Over TCP. Encrypted to somebody whom an authority vouches for or who shows the same certificate as the
  // first time (known_hosts of the config directory).
  static Result<Channel> Dial(const wire::Address& address, const DialOptions& options);
  static Result<Channel> Dial(const wire::Address& address, std::int64_t timeout_ms) {
    return Dial(address, DialOptions{.timeout_ms = timeout_ms});
  }

  // The certificate that was seen there for the first time, and is known from now on; "" for none.
  const std::string& new_fingerprint() const { return new_fingerprint_; }
  const std::string& who() const { return who_; }
  // For poll(2); −1 when it is encrypted.
  int fd() const { return socket_.get(); }

  Result<void> Write(std::string_view data);
  // Appends what has come, waiting for something; without a deadline for as long as it takes.
  Result<void> Read(std::string& buffer, const std::optional<Deadline>& deadline);

 private:
  explicit Channel(tls::Client client) : client_(std::move(client)) {}

  ScopedFd socket_;
  std::optional<tls::Client> client_;  // instead of the socket
  std::string new_fingerprint_;
  std::string who_ = "probingd";
};

}  // namespace probing::net
