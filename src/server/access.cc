#include "server/access.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/address.h"

namespace probing::server {
namespace {

constexpr std::size_t kShortestToken = 16;
constexpr int kFailuresAllowed = 10;
constexpr std::int64_t kFailureWindowNs = 60'000'000'000;
constexpr std::size_t kFailuresRemembered = 1024;
constexpr std::int64_t kTicketNs = 600'000'000'000;
constexpr std::int64_t kSessionNs = 12 * 3600 * std::int64_t{1'000'000'000};
constexpr std::size_t kMaxGrants = 256;
constexpr std::size_t kMaxMoreTokens = 32;

Refusal Refuse(int status, std::string message, std::string hint) {
  return {status, {status == 400 ? Code::kUsage : Code::kPermission, std::move(message), std::move(hint)}};
}

// "name:80", "[::1]:80" without the port; "" when it is neither.
std::string HostOnly(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return "";
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') return "";
    return std::string(host.substr(1, end - 1));
  }
  const std::size_t colon = host.find(':');
  if (colon != host.rfind(':')) return "";
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  if (port.find_first_not_of("0123456789") != std::string_view::npos) return "";
  return std::string(host.substr(0, colon));
}

std::string CookieValue(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    std::string_view one = TakePart(cookies, ';');
    one.remove_prefix(std::min(one.size(), one.find_first_not_of(' ')));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return std::string(one.substr(name.size() + 1));
  }
  return "";
}

Result<void> CheckLength(const std::string& token) {
  if (token.size() >= kShortestToken) return {};
  return Error{
      Code::kUsage, "a token of " + std::to_string(token.size()) + " characters can be guessed",
      "PROBING_TOKEN takes at least " + std::to_string(kShortestToken) + "; `probing token` makes one"};
}

// "http://name:80" of "name:80". The scheme may be either: one port speaks both.
bool IsOriginOf(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && LowerCase(origin.substr(scheme + 3)) == LowerCase(host);
}

// A program, or a browser that shows our own page. Browsers that send no Sec-Fetch-Site (to plain HTTP
// beyond this machine, and old ones) and no Origin (with a GET) name the page that asks: ours does so by
// its Referrer-Policy, another site can at most say nothing. REQUIRES: one host; Origin was checked.
bool IsFromOwnSite(const RequestHead& head) {
  if (!head.fetch_site.empty()) return head.fetch_site == "same-origin" || head.fetch_site == "none";
  if (!head.origin.empty()) return true;
  if (!head.referer.empty()) {
    const std::size_t scheme = head.referer.find("://");
    const std::size_t path = scheme == std::string::npos ? scheme : head.referer.find('/', scheme + 3);
    return IsOriginOf(std::string_view(head.referer).substr(0, path), head.hosts[0]);
  }
  return !head.user_agent.starts_with("Mozilla/");  // what all browsers call themselves
}

// Somebody follows a link, or types an address: a whole window, and not a picture or a frame.
bool IsVisit(const RequestHead& head) {
  const bool is_window =
      head.fetch_site.empty() || (head.fetch_mode == "navigate" && head.fetch_dest == "document");
  return head.answers_links && head.method == "GET" && is_window && !head.is_upgrade && !head.has_body;
}

template <typename Grants>
void DropOld(Grants& grants, std::int64_t now_ns) {
  std::erase_if(grants, [now_ns](const auto& entry) { return entry.second.until_ns < now_ns; });
  while (grants.size() >= kMaxGrants) {
    grants.erase(std::min_element(grants.begin(), grants.end(), [](const auto& a, const auto& b) {
      return a.second.until_ns < b.second.until_ns;
    }));
  }
}

}  // namespace

std::string MakeSecret() {
  std::array<unsigned char, 32> bytes{};
  // Never short for so few bytes, and there is no way on without them.
  if (syscall(SYS_getrandom, bytes.data(), bytes.size(), 0) != static_cast<long>(bytes.size())) return "";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

bool SameSecret(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return false;
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i % b.size()]));
  return difference == 0;
}

Result<void> Access::SetToken(Right right, std::string token) {
  RETURN_IF_ERROR(CheckLength(token));
  tokens_[right] = std::move(token);
  return {};
}

Result<void> Access::AddToken(Right right, const std::string& token) {
  RETURN_IF_ERROR(CheckLength(token));
  const auto is_known = [&](const auto& entry) { return entry.first == right && entry.second == token; };
  if (is_known(std::pair(right, TokenOf(right))) || std::ranges::any_of(more_tokens_, is_known)) return {};
  if (more_tokens_.size() == kMaxMoreTokens)
    return Error{Code::kFailed, "targets have brought too many different PROBING_TOKENs",
                 "`probing token` shows one that is valid"};
  more_tokens_.emplace_back(right, token);
  return {};
}

const std::string& Access::TokenOf(Right right) const {
  static const std::string none;
  const auto found = tokens_.find(right);
  return found != tokens_.end() ? found->second : none;
}

Right Access::RightOfToken(std::string_view token) const {
  Right right = Right::kNone;
  for (const auto& [each, secret] : tokens_) {  // all of them, whichever matches
    if (SameSecret(token, secret)) right = std::max(right, each);
  }
  for (const auto& [each, secret] : more_tokens_) {
    if (SameSecret(token, secret)) right = std::max(right, each);
  }
  return right;
}

Right Access::RightOfCookie(std::string_view cookie, std::int64_t now_ns) const {
  const std::string value = CookieValue(cookie, kSessionCookie);
  Right right = Right::kNone;
  for (const auto& [secret, grant] : sessions_) {
    if (SameSecret(value, secret) && grant.until_ns > now_ns) right = grant.right;
  }
  return right;
}

bool Access::HostIsOurs(const std::string& host, const Peer& peer) const {
  const std::string name = LowerCase(HostOnly(host));
  if (name.empty()) return false;
  if (wire::IsLoopback(name)) return true;
  // An address cannot be rebound as a name can. On loopback there is only one that makes sense.
  if (wire::IsIpLiteral(name)) return name == peer.local_address || !wire::IsLoopback(peer.local_address);
  return std::any_of(options_.host_names.begin(), options_.host_names.end(),
                     [&](const std::string& each) { return LowerCase(each) == name; });
}

std::optional<Refusal> Access::CheckEncryption(const Peer& peer) const {
  // Whose owner the kernel knows is on this machine, whatever address it used.
  const bool is_near = peer.uid.has_value() || wire::IsLoopback(peer.address);
  if (peer.is_encrypted || is_near || options_.allow_plain) return std::nullopt;
  return Refuse(426, "this server talks to other machines only if nobody can listen in",
                "use https://; `probing -t host:port` does so by itself");
}

std::optional<Refusal> Access::CheckSite(const RequestHead& head, const Peer& peer) const {
  if (head.hosts.size() != 1 || !HostIsOurs(head.hosts[0], peer)) {
    return Refuse(head.hosts.size() == 1 ? 421 : 400,
                  head.hosts.size() == 1 ? "this server is not known as \"" + head.hosts[0] + "\""
                                         : "a request has one Host header",
                  "use its address, as in http://" + peer.local_address +
                      "; names are checked so that other sites cannot pretend to be this one");
  }
  if (!head.origin.empty()) {
    if (!IsOriginOf(head.origin, head.hosts[0]))
      return Refuse(403, "requests from the site " + head.origin + " are not answered", "");
  }
  if (!IsFromOwnSite(head) && !IsVisit(head))
    return Refuse(403, "requests from other sites are not answered", "open the page at / instead");
  if (head.is_upgrade && head.origin.empty() && !head.fetch_site.empty())
    return Refuse(403, "a browser's WebSocket names its origin", "");
  if (head.has_body && !LowerCase(head.content_type).starts_with("application/json")) {
    return Refuse(415, "the body of a request is JSON here", "send Content-Type: application/json");
  }
  return std::nullopt;
}

std::optional<Refusal> Access::CheckRate(const Peer& peer, std::int64_t now_ns) {
  const auto found = failures_.find(peer.ToText());
  if (found == failures_.end()) return std::nullopt;
  if (now_ns - found->second.since_ns > kFailureWindowNs) {
    failures_.erase(found);
    return std::nullopt;
  }
  if (found->second.count < kFailuresAllowed) return std::nullopt;
  return Refuse(429, "too many wrong tokens from " + peer.ToText(), "try again in a minute");
}

void Access::CountFailure(const Peer& peer, std::int64_t now_ns) {
  if (failures_.size() >= kFailuresRemembered) {
    std::erase_if(failures_,
                  [now_ns](const auto& entry) { return now_ns - entry.second.since_ns > kFailureWindowNs; });
  }
  if (failures_.size() >= kFailuresRemembered) failures_.erase(failures_.begin());
  Failures& failures = failures_[peer.ToText()];
  if (failures.count == 0) failures.since_ns = now_ns;
  ++failures.count;
}

Access::Decision Access::Check(const RequestHead& head, const Peer& peer, std::int64_t now_ns) {
  if (peer.via == Peer::Via::kUnix) return {Right::kOwn, std::nullopt};
  if (std::optional<Refusal> refusal = CheckEncryption(peer)) return {Right::kNone, std::move(refusal)};
  if (std::optional<Refusal> refusal = CheckSite(head, peer)) return {Right::kNone, std::move(refusal)};
  constexpr std::string_view kBearer = "bearer ";
  Right right = peer.IsOwner() && !head.was_forwarded ? options_.owner_right : Right::kNone;
  const bool has_token = LowerCase(std::string_view(head.authorization).substr(0, kBearer.size())) == kBearer;
  if (!has_token) right = std::max(right, RightOfCookie(head.cookie, now_ns));
  if (right == Right::kNone) {
    if (std::optional<Refusal> refusal = CheckRate(peer, now_ns)) return {Right::kNone, std::move(refusal)};
  }
  if (has_token) {
    const Right granted = RightOfToken(std::string_view(head.authorization).substr(kBearer.size()));
    if (granted == Right::kNone) {
      CountFailure(peer, now_ns);
      return {Right::kNone, Refuse(401, "this is not a token of this server",
                                   "`probing token` on its machine shows the right one")};
    }
    // A token is what its holder wants to be judged by: one for reading does not become more.
    right = granted;
  }
  if (right != Right::kNone) return {right, std::nullopt};
  return {
      Right::kNone,
      Refuse(401, "this server answers its owner only",
             "send a token (Authorization: Bearer …; `probing token` on its machine shows it), or open the "
             "link that `probing serve` prints")};
}

Access::Decision Access::CheckText(std::string_view token, const Peer& peer, std::int64_t now_ns) {
  if (peer.via == Peer::Via::kUnix) return {Right::kOwn, std::nullopt};
  if (std::optional<Refusal> refusal = CheckEncryption(peer)) return {Right::kNone, std::move(refusal)};
  if (token.empty() && peer.IsOwner()) return {options_.owner_right, std::nullopt};
  if (std::optional<Refusal> refusal = CheckRate(peer, now_ns)) return {Right::kNone, std::move(refusal)};
  const Right right = RightOfToken(token);
  if (right != Right::kNone) return {right, std::nullopt};
  if (!token.empty()) CountFailure(peer, now_ns);
  return {
      Right::kNone,
      Refuse(401, token.empty() ? "this server answers its owner only" : "this is not a token of this server",
             "say `token …` first; `probing token` on its machine shows it")};
}

std::string Access::IssueTicket(Right right, std::int64_t now_ns) {
  DropOld(tickets_, now_ns);
  std::string ticket = MakeSecret();
  if (!ticket.empty()) tickets_[ticket] = {right, now_ns + kTicketNs};
  return ticket;
}

Access::Visit Access::RedeemTicket(const std::string& ticket, const RequestHead& head, const Peer& peer,
                                   std::int64_t now_ns) {
  if (std::optional<Refusal> refusal = CheckEncryption(peer)) return {"", std::move(refusal)};
  if (std::optional<Refusal> refusal = CheckSite(head, peer)) return {"", std::move(refusal)};
  if (std::optional<Refusal> refusal = CheckRate(peer, now_ns)) return {"", std::move(refusal)};
  DropOld(tickets_, now_ns);
  const auto found = std::find_if(tickets_.begin(), tickets_.end(),
                                  [&](const auto& entry) { return SameSecret(ticket, entry.first); });
  if (found == tickets_.end()) {
    CountFailure(peer, now_ns);
    return {"", Refuse(401, "this link was used before, or is older than ten minutes",
                       "`probing serve` prints a new one")};
  }
  const Right right = found->second.right;
  tickets_.erase(found);
  DropOld(sessions_, now_ns);
  std::string session = MakeSecret();
  if (!session.empty()) sessions_[session] = {right, now_ns + kSessionNs};
  return {session, std::nullopt};
}

}  // namespace probing::server
