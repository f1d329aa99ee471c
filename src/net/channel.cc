#include "net/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>

#include "base/file.h"
#include "net/dial.h"
#include "tls/known_hosts.h"
#include "wire/config_directory.h"

namespace probing::net {
namespace {

constexpr std::int64_t kWriteTimeoutMs = 30'000;

Error NotInTime(const std::string& who) {
  if (who != "probingd") return {Code::kTimeout, who + " did not answer in time", ""};
  return {Code::kTimeout, "probingd did not answer in time", "is it stopped? see `probing status`"};
}

Error WentAway(const std::string& who) {
  if (who != "probingd") return {Code::kFailed, who + " went away before it answered", ""};
  return {Code::kFailed, "probingd went away before it answered", "try again: it is started anew"};
}

// Before anything is sent: whether it is whom we think it is. True when nobody knew it before.
Result<bool> Recognise(const tls::Client& client, const std::string& address, const DialOptions& options) {
  if (client.is_trusted()) return false;
  if (options.trust == Trust::kAuthority)
    return Error{Code::kPermission, options.who + " shows a certificate that no authority here vouches for",
                 ""};
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareConfigDirectory());
  const std::string known_hosts = directory + "/known_hosts";
  ASSIGN_OR_RETURN(const tls::Seen seen, tls::CheckKnownHost(known_hosts, address, client.fingerprint()));
  return seen == tls::Seen::kFirst;
}

}  // namespace

Result<Channel> Channel::Dial(const wire::Address& address, const DialOptions& options) {
  const Deadline deadline = Deadline::AfterMs(options.timeout_ms);
  ASSIGN_OR_RETURN(ScopedFd socket, DialTcp(address, options.timeout_ms));
  const bool is_plain = options.encryption == Encryption::kNever ||
                        (options.encryption != Encryption::kAlways && wire::IsLoopback(address.host));
  if (is_plain) {
    // Somebody who does not read any more is not waited for.
    const timeval patience{kWriteTimeoutMs / 1000, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    Channel channel(std::move(socket));
    channel.who_ = options.who;
    return channel;
  }
  ASSIGN_OR_RETURN(tls::Client client,
                   tls::Client::Connect(std::move(socket), address.host, deadline, options.authority_file));
  ASSIGN_OR_RETURN(const bool is_new, Recognise(client, address.ToText(), options));
  Channel channel(std::move(client));
  channel.who_ = options.who;
  if (is_new) channel.new_fingerprint_ = channel.client_->fingerprint();
  return channel;
}

Result<void> Channel::Write(std::string_view data) {
  if (client_) return client_->Write(data, Deadline::AfterMs(kWriteTimeoutMs));
  return WriteAll(socket_.get(), data);
}

Result<void> Channel::Read(std::string& buffer, const std::optional<Deadline>& deadline) {
  if (client_) {
    const Result<bool> more = client_->Read(buffer, deadline ? &*deadline : nullptr);
    if (!more.ok()) return more.error().code == Code::kTimeout ? NotInTime(who_) : more.error();
    return *more ? Result<void>() : WentAway(who_);
  }
  pollfd ready{socket_.get(), POLLIN, 0};
  const int n = poll(&ready, 1, deadline ? deadline->left_ms() : -1);
  if (n == 0) return NotInTime(who_);
  if (n < 0 && errno != EINTR) return ErrnoError("wait for " + who_);
  if (n < 0) return {};
  std::array<char, 16384> bytes;
  const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && errno != EINTR) return ErrnoError("read from " + who_);
  if (got == 0) return WentAway(who_);
  if (got > 0) buffer.append(bytes.data(), static_cast<std::size_t>(got));
  return {};
}

}  // namespace probing::net
