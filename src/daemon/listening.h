// Which addresses probingd answers on: those of the setting probing.server.addr, and those that targets
// were started with (PROBE_ADDR, PROBING_ADDR, PROBING_PORT). Several may ask for the same one.
//
// On this machine (loopback) only its owner and holders of a token get in. Beyond it connections are
// encrypted, with the certificate of probing.server.certificate or a self-made one, unless the owner says
// that they need not be (probing.server.plain).
// Runs on the daemon's thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/targets.h"
#include "server/http_server.h"
#include "wire/address.h"
#include "wire/settings.h"

namespace probing::daemon {

class Listening {
 public:
  // Everything outlives this.
  Listening(boost::asio::io_context& io, Targets& targets, wire::Settings& settings,
            server::HttpServer& server, server::Access& access)
      : io_(io), targets_(targets), settings_(settings), server_(server), access_(access) {}

  // Makes it so: opens what is new in `settings` and closes what nobody asks for any more. All or nothing.
  Result<void> Apply(const wire::Settings& settings);

  // One more, or one less, in probing.server.addr.
  Result<void> Add(const wire::Address& address);
  Result<void> Remove(const wire::Address& address);

  // Follows the wishes of targets from now on.
  void Watch();

  // Addresses of the setting keep the daemon; those of targets stay as long as they do.
  bool IsAskedFor() const { return !Wanted(settings_).empty(); }

  // Of the certificate that other machines see; "" when there is none yet.
  const std::string& fingerprint() const { return fingerprint_; }

  // The targets that were started with this address of ours.
  std::vector<pid_t> ServedAt(const wire::Address& address) const;

  // "http://127.0.0.1:3344/?ticket=…", good for one visit.
  std::string Link(const wire::Address& address, server::Right right);

 private:
  static std::vector<wire::Address> Wanted(const wire::Settings& settings);
  Result<void> PrepareEncryption(const wire::Settings& settings);
  bool IsWantedByTarget(const wire::Address& address) const;
  Result<void> Open(const wire::Address& address, const wire::Settings& settings);
  boost::asio::awaitable<void> LookAtTargets();
  void TakeWish(const Target& target);
  void NotServed(const Target& target, const std::string& reason);

  boost::asio::io_context& io_;
  Targets& targets_;
  wire::Settings& settings_;
  server::HttpServer& server_;
  server::Access& access_;
  std::string fingerprint_;
  std::string certificate_;  // where it came from
  // By pid and when it was started. No address: looked at, and it wants none.
  std::map<std::pair<pid_t, std::uint64_t>, std::optional<wire::Address>> wishes_;
};

}  // namespace probing::daemon
