#include "cluster/peer_client.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/channel.h"
#include "net/http_answer.h"
#include "net/http_request.h"
#include "net/refusal.h"

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

}  // namespace

Result<std::string> AskPeer(const PeerRequest& request, const Deadline& deadline) {
  ASSIGN_OR_RETURN(net::Channel channel, net::Channel::Dial(request.address, deadline.left_ms()));
  const std::string head = net::RequestHead(request.body.empty() ? "GET" : "POST", request.path,
                                            request.address.ToText(), request.token);
  RETURN_IF_ERROR(channel.Write(net::WithBody(head, request.body)));
  ASSIGN_OR_RETURN(net::HttpAnswer answer, net::ReadAnswer(channel, deadline, request.max_bytes));
  if (answer.status != kOk) return RefusalOf(answer);
  return std::move(answer.body);
}

}  // namespace probing::cluster
