#include "cluster/peer_client.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "net/channel.h"
#include "net/http_answer.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr std::size_t kMaxReasonBytes = 1000;  // of what a stranger may put into our answers

// What it said instead of an answer.
Error RefusalOf(const net::HttpAnswer& answer) {
  const nlohmann::json json = nlohmann::json::parse(answer.body, nullptr, false);
  const auto error = json.is_object() ? json.find("error") : json.end();
  const auto text = [&](const char* field) {
    const auto found = error->find(field);
    return found != error->end() && found->is_string() ? found->get<std::string>().substr(0, kMaxReasonBytes)
                                                       : std::string();
  };
  if (error == json.end() || !error->is_object())
    return {Code::kFailed, "answered with status " + std::to_string(answer.status), ""};
  if (answer.status == kUnauthorized) {
    return {Code::kPermission, "does not accept our token: " + text("message"),
            "start the probingd of all hosts with the same PROBING_TOKEN"};
  }
  return {wire::CodeFromName(text("code")), text("message"), text("hint")};
}

}  // namespace

Result<std::string> AskPeer(const PeerRequest& request, const Deadline& deadline) {
  ASSIGN_OR_RETURN(net::Channel channel, net::Channel::Dial(request.address, deadline.left_ms()));
  std::string text = (request.body.empty() ? "GET " : "POST ") + request.path +
                     " HTTP/1.1\r\nHost: " + request.address.ToText() + "\r\n";
  if (!request.token.empty()) text += "Authorization: Bearer " + request.token + "\r\n";
  text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(request.body.size()) +
          "\r\n\r\n" + request.body;
  RETURN_IF_ERROR(channel.Write(text));
  ASSIGN_OR_RETURN(net::HttpAnswer answer, net::ReadAnswer(channel, deadline, request.max_bytes));
  if (answer.status != kOk) return RefusalOf(answer);
  return std::move(answer.body);
}

std::string OwnToken() {
  const char* variable = std::getenv("PROBING_TOKEN");
  std::string any;
  for (std::string_view rest = variable == nullptr ? "" : variable; !rest.empty();) {
    const std::string_view one = TakePart(rest, ',');
    if (one.starts_with("read:")) return std::string(one.substr(5));
    const std::size_t colon = one.find(':');
    any = std::string(colon == std::string_view::npos ? one : one.substr(colon + 1));
  }
  return any;
}

}  // namespace probing::cluster
