#include "server/router.h"

#include <boost/system/system_error.hpp>

#include "wire/contract.h"

namespace probing::server {
namespace asio = boost::asio;

std::string JsonText(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Content JsonContent(const Json& json) { return {"application/json", JsonText(json), 200, {}}; }

void Router::Add(std::string_view method, std::string_view path, Right right, Handler handler) {
  AddContent(method, path, right,
             [handler = std::move(handler)](const Request& request) -> asio::awaitable<Result<Content>> {
               const Result<Json> answer = co_await handler(request);
               if (!answer.ok()) co_return answer.error();
               co_return JsonContent(*answer);
             });
}

void Router::AddContent(std::string_view method, std::string_view path, Right right, ContentHandler handler) {
  handlers_[{std::string(path), std::string(method)}] = {right, std::move(handler)};
}

void Router::AddEvents(std::string_view path, Right right, EventHandler handler) {
  events_[std::string(path)] = {right, std::move(handler)};
}

void Router::AddSocket(std::string_view path, Right right, SocketHandler handler) {
  sockets_[std::string(path)] = {right, std::move(handler)};
}

void Router::AnswerLinks(std::string_view path) { linked_.insert(std::string(path)); }

bool Router::AnswersLinks(std::string_view path) const { return linked_.contains(path); }

const EventHandler* Router::FindEvents(const Request& request) const {
  const auto found = events_.find(request.path);
  const bool allowed =
      found != events_.end() && request.method == "GET" && request.right >= found->second.right;
  return allowed ? &found->second.handler : nullptr;
}

const SocketHandler* Router::FindSocket(const Request& request) const {
  const auto found = sockets_.find(request.path);
  const bool allowed = found != sockets_.end() && request.right >= found->second.right;
  return allowed ? &found->second.handler : nullptr;
}

Content Router::TooFewRights(const Request& request, Right needed) const {
  const Error error{Code::kPermission,
                    request.path + " takes the right to " + std::string(RightName(needed)) +
                        "; this request may " + std::string(RightName(request.right)),
                    needed == Right::kOwn ? "use the unix socket, as `probing` does on that machine"
                                          : "`probing token --rights " + std::string(RightName(needed)) +
                                                "` shows the token for it"};
  if (audit_) audit_(request, error);
  return ErrorContent(error);
}

// Why no handler answers this request.
std::optional<Content> Router::Refuse(const Request& request) const {
  if (const auto found = sockets_.find(request.path); found != sockets_.end()) {
    if (request.right < found->second.right) return TooFewRights(request, found->second.right);
    return ErrorContent({Code::kUsage, request.path + " is a WebSocket", "connect with ws://"}, 426);
  }
  if (const auto found = events_.find(request.path); found != events_.end()) {
    if (request.right < found->second.right) return TooFewRights(request, found->second.right);
    return ErrorContent({Code::kUsage, request.path + " does not take " + request.method, ""}, 405);
  }
  const auto other = handlers_.lower_bound(std::pair(request.path, std::string()));
  if (other != handlers_.end() && other->first.first == request.path)
    return ErrorContent({Code::kUsage, request.path + " does not take " + request.method, ""}, 405);
  return std::nullopt;
}

asio::awaitable<void> Router::Announce(const Request& request) const {
  if (announcement_) co_await announcement_(request);
}

asio::awaitable<Content> Router::Dispatch(const Request& request) const {
  const auto found = handlers_.find(std::pair(request.path, request.method));
  const ContentHandler* handler = found != handlers_.end() ? &found->second.handler : nullptr;
  if (handler != nullptr && request.right < found->second.right)
    co_return TooFewRights(request, found->second.right);
  if (handler == nullptr) {
    if (std::optional<Content> refused = Refuse(request)) co_return std::move(*refused);
    const bool is_file = request.method == "GET" && !request.path.starts_with("/api/");
    if (is_file && files_ && request.right >= Right::kRead) handler = &files_;
  }
  if (handler == nullptr)
    co_return ErrorContent(
        {Code::kNotFound, "there is no " + request.path, "/api/v1/openapi.json lists what is"});
  co_await Announce(request);
  // A handler that throws has a bug; it costs its own request and nothing else.
  std::string problem;
  try {
    Result<Content> answer = co_await (*handler)(request);
    if (!answer.ok()) co_return ErrorContent(answer.error());
    co_return std::move(*answer);
  } catch (const boost::system::system_error&) {
    throw;  // the client has gone
  } catch (const std::exception& e) {
    problem = e.what();
  }
  co_return ErrorContent({Code::kFailed, request.path + ": " + problem, "this is a bug of probingd"});
}

Json ErrorJson(const Error& error) {
  return {
      {"error", {{"code", wire::CodeName(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
}

Content ErrorContent(const Error& error) { return ErrorContent(error, wire::HttpStatus(error.code)); }

Content ErrorContent(const Error& error, int http_status) {
  Content content = JsonContent(ErrorJson(error));
  content.http_status = http_status;
  return content;
}

}  // namespace probing::server
