#include "server/router.h"

#include <boost/system/system_error.hpp>
#include <charconv>

#include "wire/contract.h"

namespace probing::server {
namespace asio = boost::asio;

namespace {

// Bytes of a target may be anything; JSON is UTF-8.
Content ToContent(const Json& json) {
  return {"application/json", json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::string DecodePercent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 3], byte, 16).ptr == &text[i + 3]) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

void Router::Add(std::string_view method, std::string_view path, Handler handler) {
  AddContent(method, path,
             [handler = std::move(handler)](const Request& request) -> asio::awaitable<Result<Content>> {
               const Result<Json> answer = co_await handler(request);
               if (!answer.ok()) co_return answer.error();
               co_return ToContent(*answer);
             });
}

void Router::AddContent(std::string_view method, std::string_view path, ContentHandler handler) {
  handlers_[{std::string(path), std::string(method)}] = std::move(handler);
}

asio::awaitable<Response> Router::Dispatch(const Request& request) const {
  const auto found = handlers_.find(std::pair(request.path, request.method));
  if (found == handlers_.end()) {
    const auto other = handlers_.lower_bound(std::pair(request.path, std::string()));
    const bool known = other != handlers_.end() && other->first.first == request.path;
    Response response = ErrorResponse(
        {known ? Code::kUsage : Code::kNotFound,
         known ? request.path + " does not take " + request.method : "there is no " + request.path, ""});
    if (known) response.http_status = 405;
    co_return response;
  }
  // A handler that throws has a bug; it costs its own request and nothing else.
  std::string problem;
  try {
    Result<Content> answer = co_await found->second(request);
    if (!answer.ok()) co_return ErrorResponse(answer.error());
    co_return Response{200, std::move(*answer)};
  } catch (const boost::system::system_error&) {
    throw;  // the client has gone
  } catch (const std::exception& e) {
    problem = e.what();
  }
  co_return ErrorResponse({Code::kFailed, request.path + ": " + problem, "this is a bug of probingd"});
}

Response ErrorResponse(const Error& error) {
  const Json body{
      {"error", {{"code", wire::CodeName(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
  return {wire::HttpStatus(error.code), ToContent(body)};
}

void ParseUrl(std::string_view url, Request& request) {
  const std::size_t question = url.find('?');
  request.path = DecodePercent(url.substr(0, question));
  if (question == std::string_view::npos) return;
  url.remove_prefix(question + 1);
  while (!url.empty()) {
    const std::string_view pair = url.substr(0, url.find('&'));
    url.remove_prefix(std::min(url.size(), pair.size() + 1));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = pair.substr(std::min(pair.size(), equals + 1));
    request.query[DecodePercent(pair.substr(0, equals))] = DecodePercent(value);
  }
}

}  // namespace probing::server
