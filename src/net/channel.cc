#include "net/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "base/file.h"
#include "net/dial.h"
#include "tls/known_hosts.h"
#include "wire/config_directory.h"

namespace probing::net {
namespace {

constexpr std::int64_t kWriteTimeoutMs = 30'000;

Error NotInTime() {
  return {Code::kTimeout, "probingd did not answer in time", "is it stopped? see `probing status`"};
}

Error WentAway() {
  return {Code::kFailed, "probingd went away before it answered", "try again: it is started anew"};
}

// Before anything is sent: whether it is whom we think it is. True when nobody knew it before.
Result<bool> Recognise(const tls::Client& client, const std::string& address) {
  if (client.is_trusted()) return false;
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareConfigDirectory());
  const std::string known_hosts = directory + "/known_hosts";
  ASSIGN_OR_RETURN(const tls::Seen seen, tls::CheckKnownHost(known_hosts, address, client.fingerprint()));
  return seen == tls::Seen::kFirst;
}

}  // namespace

Result<Channel> Channel::Dial(const wire::Address& address, std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  ASSIGN_OR_RETURN(ScopedFd socket, DialTcp(address, timeout_ms));
  if (wire::IsLoopback(address.host)) return Channel(std::move(socket));
  ASSIGN_OR_RETURN(tls::Client client, tls::Client::Connect(std::move(socket), address.host, deadline));
  ASSIGN_OR_RETURN(const bool is_new, Recognise(client, address.ToText()));
  Channel channel(std::move(client));
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
    if (!more.ok()) return more.error().code == Code::kTimeout ? NotInTime() : more.error();
    return *more ? Result<void>() : WentAway();
  }
  pollfd ready{socket_.get(), POLLIN, 0};
  const int n = poll(&ready, 1, deadline ? deadline->left_ms() : -1);
  if (n == 0) return NotInTime();
  if (n < 0 && errno != EINTR) return ErrnoError("wait for probingd");
  if (n < 0) return {};
  std::array<char, 16384> bytes;
  const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && errno != EINTR) return ErrnoError("read from probingd");
  if (got == 0) return WentAway();
  if (got > 0) buffer.append(bytes.data(), static_cast<std::size_t>(got));
  return {};
}

}  // namespace probing::net
