#include "cluster/peer_client.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/packing.h"
#include "net/channel.h"
#include "net/http_answer.h"
#include "net/http_request.h"
#include "net/kept_channels.h"
#include "net/refusal.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr std::size_t kMaxReasonBytes = 1000;  // of what a stranger may put into our answers

// What it said instead of an answer.
Error RefusalOf(const net::HttpAnswer& answer) {
  std::optional<Error> error = net::ErrorIn(nlohmann::json::parse(answer.body, nullptr, false));
  if (!error) return {Code::kFailed, "answered with status " + std::to_string(answer.status), ""};
  for (std::string* text : {&error->message, &error->hint})
    text->resize(std::min(text->size(), kMaxReasonBytes));
  if (answer.status != kUnauthorized) return std::move(*error);
  return {Code::kPermission, "does not accept our token: " + error->message,
          "start the probingd of all hosts with the same PROBING_TOKEN"};
}

// Shared by all who ask, for as long as we live.
net::KeptChannels& Channels() {
  static auto& channels = *new net::KeptChannels;
  return channels;
}

struct TimedAnswer {
  net::HttpAnswer http;
  std::int64_t sent_ns, trip_ns;
};

Result<TimedAnswer> Exchange(net::Channel& channel, const PeerRequest& request, const Deadline& deadline) {
  const std::string head = net::RequestHead(request.body.empty() ? "GET" : "POST", request.path,
                                            request.address.ToText(), request.token) +
                           "Accept-Encoding: " + std::string(kPackedEncoding) + "\r\n";
  const std::int64_t sent_ns = WallNs(), began_ns = MonotonicNs();
  RETURN_IF_ERROR(channel.Write(net::WithBody(head, request.body)));
  ASSIGN_OR_RETURN(net::HttpAnswer answer, net::ReadAnswer(channel, deadline, request.max_bytes));
  return TimedAnswer{std::move(answer), sent_ns, MonotonicNs() - began_ns};
}

Result<TimedAnswer> ExchangeAnew(const PeerRequest& request, const Deadline& deadline) {
  ASSIGN_OR_RETURN(net::Channel channel, net::Channel::Dial(request.address, deadline.left_ms()));
  Result<TimedAnswer> answer = Exchange(channel, request, deadline);
  if (answer.ok()) Channels().Keep(request.address, std::move(channel));
  return answer;
}

Result<TimedAnswer> ExchangeAgain(const PeerRequest& request, const Deadline& deadline) {
  std::optional<net::Channel> kept = Channels().Take(request.address);
  if (!kept) return ExchangeAnew(request, deadline);
  Result<TimedAnswer> answer = Exchange(*kept, request, deadline);
  if (answer.ok()) Channels().Keep(request.address, std::move(*kept));
  // Closed by the other side while nobody asked, or by another one that has its address now.
  const bool is_stale = !answer.ok() && answer.error().code != Code::kTimeout;
  return is_stale ? ExchangeAnew(request, deadline) : std::move(answer);
}

}  // namespace

Result<PeerAnswer> AskPeer(const PeerRequest& request, const Deadline& deadline) {
  ASSIGN_OR_RETURN(TimedAnswer timed, ExchangeAgain(request, deadline));
  net::HttpAnswer& answer = timed.http;
  if (answer.status != kOk) return RefusalOf(answer);
  for (const std::string& encoding : answer.Headers("Content-Encoding")) {
    if (encoding != kPackedEncoding)
      return Error{Code::kFailed, "it answered in an encoding we did not ask for", ""};
    ASSIGN_OR_RETURN(answer.body, Unpack(answer.body, request.max_bytes));
  }
  const std::vector<std::string> instances = answer.Headers(wire::kInstanceHeader);
  return PeerAnswer{std::move(answer.body), instances.empty() ? "" : instances[0], timed.sent_ns,
                    timed.trip_ns};
}

}  // namespace probing::cluster
