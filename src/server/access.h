// Access: decides about every request that comes over TCP. Over the unix socket the peer's uid has
// been checked already and everything is allowed.
//
//   who      a program of the same user on this machine (sock_diag), or a token (Bearer header, or
//            the cookie that a one-time link was turned into)
//   not by   another site in the user's browser: Host must be an address or one of our names, Origin
//            our own, and bodies JSON, so that browsers ask before they send any; a browser has to say that
//            our own page asks (Sec-Fetch-Site, Origin, Referer), except for routes that answer links
//   how      from another machine encrypted, unless the owner says otherwise
//   guess    after some wrong tokens an address has to wait; on this machine, a user
//
// Pure logic: time comes in, nothing is read. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/rights.h"

namespace probing::server {

struct AccessOptions {
  Right owner_right = Right::kEval;     // of programs of the same user
  std::vector<std::string> host_names;  // beside localhost and addresses
  bool allow_plain = false;             // other machines need not encrypt
};

// What decides, of the head of a request.
struct RequestHead {
  std::string method;
  std::vector<std::string> hosts;
  std::string origin;
  std::string authorization;
  std::string cookie;
  std::string content_type;
  std::string fetch_site;  // Sec-Fetch-*, which pages cannot set; sent only to https and to this machine
  std::string fetch_mode;
  std::string fetch_dest;
  std::string referer;
  std::string user_agent;
  bool answers_links = false;  // the route does, wherever a link to it stands
  bool has_body = false;
  bool was_forwarded = false;  // by a proxy: then its uid says nothing
  bool is_upgrade = false;
};

struct Refusal {
  int http_status = 403;
  Error error;
};

class Access {
 public:
  void Configure(AccessOptions options) { options_ = std::move(options); }
  const AccessOptions& options() const { return options_; }

  // The server's own token for a right, which is the one that is shown; "" for none. A secret of fewer than
  // 16 characters is refused.
  Result<void> SetToken(Right right, std::string token);
  // Another one that is as good. It replaces none; there is room for some.
  Result<void> AddToken(Right right, const std::string& token);
  const std::string& TokenOf(Right right) const;
  bool has_tokens() const { return !tokens_.empty(); }

  // What the request may do; never kNone.
  struct Decision {
    Right right = Right::kNone;
    std::optional<Refusal> refusal;
  };
  Decision Check(const RequestHead& head, const Peer& peer, std::int64_t now_ns);

  // The same for the text protocol: `token` is "" until the client has given one.
  Decision CheckText(std::string_view token, const Peer& peer, std::int64_t now_ns);

  // A secret for one visit within ten minutes, and the cookie it is turned into.
  struct Visit {
    std::string cookie;
    std::optional<Refusal> refusal;
  };
  std::string IssueTicket(Right right, std::int64_t now_ns);
  Visit RedeemTicket(const std::string& ticket, const RequestHead& head, const Peer& peer,
                     std::int64_t now_ns);

 private:
  struct Failures {
    int count = 0;
    std::int64_t since_ns = 0;
  };
  struct Grant {
    Right right = Right::kNone;
    std::int64_t until_ns = 0;
  };

  Right RightOfToken(std::string_view token) const;
  Right RightOfCookie(std::string_view cookie, std::int64_t now_ns) const;
  bool HostIsOurs(const std::string& host, const Peer& peer) const;
  std::optional<Refusal> CheckEncryption(const Peer& peer) const;
  std::optional<Refusal> CheckSite(const RequestHead& head, const Peer& peer) const;
  std::optional<Refusal> CheckRate(const Peer& peer, std::int64_t now_ns);
  void CountFailure(const Peer& peer, std::int64_t now_ns);

  AccessOptions options_;
  std::map<Right, std::string> tokens_;
  std::vector<std::pair<Right, std::string>> more_tokens_;
  std::map<std::string, Grant> tickets_;
  std::map<std::string, Grant> sessions_;  // by cookie
  // By address, and by user where the kernel knows one: nobody on this machine locks out the others.
  std::map<std::string, Failures> failures_;
};

// 32 bytes of the kernel's randomness as hex digits.
std::string MakeSecret();

// In a time that tells nothing about where they differ.
bool SameSecret(std::string_view a, std::string_view b);

inline constexpr std::string_view kSessionCookie = "probing_session";

}  // namespace probing::server
