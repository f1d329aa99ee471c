#include "cluster/etcd.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "cluster/plain_socket.h"
#include "net/http_request.h"
#include "wire/node_list.h"

namespace probing::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLeaseSeconds = 60;
constexpr std::size_t kMaxAnswerBytes = 4 << 20;

bool IsAnywhere(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// The end of all keys that begin with it, as etcd wants it said.
std::string AfterPrefix(std::string prefix) {
  ++prefix.back();  // printable: it does not overflow
  return prefix;
}

std::string TextIn(const Json& json, const char* field) {
  const auto found = json.is_object() ? json.find(field) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<Json> Post(const wire::Address& server, const std::string& path, const Json& body,
                  const Deadline& deadline) {
  ASSIGN_OR_RETURN(const PlainSocket socket, PlainSocket::Dial(server, deadline));
  const std::string text = body.dump();
  // 1.0: the answer ends where the connection does, however long it is.
  RETURN_IF_ERROR(socket.Write("POST " + path + " HTTP/1.0\r\nHost: " + server.ToText() +
                               "\r\nContent-Type: application/json\r\nContent-Length: " +
                               std::to_string(text.size()) + "\r\n\r\n" + text));
  ASSIGN_OR_RETURN(const std::string answer, socket.ReadToEnd(kMaxAnswerBytes));
  const std::size_t end = answer.find("\r\n\r\n");
  const Json json = end == std::string::npos ? Json() : Json::parse(answer.substr(end + 4), nullptr, false);
  if (!json.is_object() || answer.find(" 200 ") > answer.find("\r\n")) {
    const std::string reason = TextIn(json, "message").substr(0, 200);
    return Error{
        Code::kFailed,
        server.ToText() + " does not answer as etcd 3.4 and newer do" + (reason.empty() ? "" : ": " + reason),
        "is it etcd, without TLS?"};
  }
  return json;
}

}  // namespace

Result<void> Etcd::Put(const wire::Address& own, const Deadline& deadline) {
  ASSIGN_OR_RETURN(const Json granted, Post(server_, "/v3/lease/grant", {{"TTL", kLeaseSeconds}}, deadline));
  lease_ = TextIn(granted, "ID");
  if (lease_.empty()) return Error{Code::kFailed, "etcd gave no lease", ""};
  const Json put{
      {"key", ToBase64(prefix_ + "/" + key_)}, {"value", ToBase64(own.ToText())}, {"lease", lease_}};
  const Result<Json> done = Post(server_, "/v3/kv/put", put, deadline);
  if (!done.ok()) lease_.clear();
  return done.ok() ? Result<void>() : done.error();
}

Result<void> Etcd::Announce(wire::Address own, const Deadline& deadline) {
  if (IsAnywhere(own.host)) {
    ASSIGN_OR_RETURN(const PlainSocket socket, PlainSocket::Dial(server_, deadline));
    own.host = socket.LocalHost();
  }
  if (!lease_.empty() && announced_ == own.ToText()) {
    ASSIGN_OR_RETURN(const Json kept, Post(server_, "/v3/lease/keepalive", {{"ID", lease_}}, deadline));
    // Without a time it has ended: etcd was away for too long, or we were.
    if (kept.contains("result") && !TextIn(kept["result"], "TTL").empty()) return {};
  }
  RETURN_IF_ERROR(Put(own, deadline));
  announced_ = own.ToText();
  return {};
}

Result<std::vector<wire::Address>> Etcd::List(const Deadline& deadline) const {
  const std::string prefix = prefix_ + "/";
  const Json range{{"key", ToBase64(prefix)},
                   {"range_end", ToBase64(AfterPrefix(prefix))},
                   {"limit", static_cast<std::int64_t>(wire::kMaxAddresses)}};
  ASSIGN_OR_RETURN(const Json answer, Post(server_, "/v3/kv/range", range, deadline));
  std::vector<wire::Address> addresses;
  const auto found = answer.find("kvs");
  for (const Json& each : found != answer.end() && found->is_array() ? *found : Json::array()) {
    const std::optional<std::string> value = FromBase64(TextIn(each, "value"));
    Result<wire::Address> address = value ? wire::ParseAddress(*value) : Error{Code::kUsage, "", ""};
    if (address.ok()) addresses.push_back(std::move(*address));
  }
  return addresses;
}

}  // namespace probing::cluster
