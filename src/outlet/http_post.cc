#include "outlet/http_post.h"

#include <algorithm>

#include "base/base64.h"
#include "base/text.h"
#include "net/channel.h"
#include "net/http_answer.h"
#include "net/http_request.h"

namespace probing::outlet {
namespace {

constexpr std::int64_t kDialMs = 5'000;
constexpr std::int64_t kAnswerMs = 10'000;
constexpr std::int64_t kMostWaitS = 300;
constexpr int kRequestTimeout = 408;
constexpr int kTooManyRequests = 429;

std::string HeadOf(const Destination& to, std::string_view path, std::string_view content_type,
                   std::size_t size_bytes) {
  const wire::OutletUrl& url = to.url;
  std::string whole = url.path;
  if (!path.empty()) {
    while (whole.ends_with('/')) whole.pop_back();
    whole += path;
  }
  std::string head = net::RequestHead("POST", whole + url.query, url.address.ToText(), "");
  if (!url.user.empty() || !url.password.empty())
    head += "Authorization: Basic " + ToBase64(url.user + ":" + url.password) + "\r\n";
  for (const auto& [name, value] : to.headers) head += name + ": " + value + "\r\n";
  head.append("User-Agent: probing\r\nContent-Type: ").append(content_type);
  return head + "\r\nContent-Length: " + std::to_string(size_bytes) + "\r\nConnection: close\r\n\r\n";
}

Posted Verdict(const std::string& who, const net::HttpAnswer& answer) {
  if (answer.status >= 200 && answer.status < 300) return {};
  Posted posted;
  const bool is_busy =
      answer.status >= 500 || answer.status == kTooManyRequests || answer.status == kRequestTimeout;
  posted.outcome = is_busy ? Outcome::kTryAgain : Outcome::kRefused;
  posted.problem = who + " answered HTTP " + std::to_string(answer.status);
  if (answer.status == 401 || answer.status == 403) posted.problem += ": it wants other credentials";
  if (answer.status >= 300 && answer.status < 400) posted.problem += ": redirections are not followed";
  const std::vector<std::string> waits = answer.Headers("retry-after");
  if (!waits.empty() && ParseNumber(waits[0], posted.wait_s))
    posted.wait_s = std::clamp<std::int64_t>(posted.wait_s, 0, kMostWaitS);
  return posted;
}

}  // namespace

Posted HttpPost(const Destination& to, std::string_view path, std::string_view content_type,
                std::string_view body) {
  net::DialOptions options{.timeout_ms = kDialMs, .who = to.url.ToText()};
  options.encryption = to.url.is_encrypted ? net::Encryption::kAlways : net::Encryption::kNever;
  options.trust = net::Trust::kAuthority;
  options.authority_file = to.authority_file;
  Result<net::Channel> channel = net::Channel::Dial(to.url.address, options);
  if (!channel.ok()) return {.outcome = Outcome::kTryAgain, .problem = channel.error().message};
  Result<void> written = channel->Write(HeadOf(to, path, content_type, body.size()));
  if (written.ok()) written = channel->Write(body);
  // A server that refuses may do so before it has read everything.
  const Result<net::HttpAnswer> answer = net::ReadAnswerHead(*channel, Deadline::AfterMs(kAnswerMs));
  if (answer.ok()) return Verdict(options.who, *answer);
  return {.outcome = Outcome::kTryAgain,
          .problem = (written.ok() ? answer.error() : written.error()).message};
}

}  // namespace probing::outlet
