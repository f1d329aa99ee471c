#include "net/http_answer.h"

#include <charconv>

namespace probing::net {
namespace {

constexpr std::size_t kMaxHeadBytes = 256 << 10;

}  // namespace

std::vector<std::string> HttpAnswer::Headers(std::string_view name) const {
  std::vector<std::string> values;
  const std::string start = "\r\n" + std::string(name) + ": ";
  for (std::size_t at = head.find(start); at != std::string::npos; at = head.find(start, at + 1)) {
    const std::size_t begin = at + start.size();
    values.push_back(head.substr(begin, head.find("\r\n", begin) - begin));
  }
  return values;
}

Result<HttpAnswer> ReadAnswer(Channel& channel, const std::optional<Deadline>& deadline,
                              std::size_t max_bytes) {
  const Error not_http{Code::kFailed, "probingd answered something that is not HTTP", ""};
  std::string buffer;
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (buffer.size() > kMaxHeadBytes) return not_http;
    RETURN_IF_ERROR(channel.Read(buffer, deadline));
  }
  HttpAnswer answer;
  answer.head = buffer.substr(0, end + 2);
  const std::string& head = answer.head;
  std::size_t size_bytes = 0;
  const std::size_t length = head.find("Content-Length: ");
  const bool valid =
      head.starts_with("HTTP/1.1 ") && head.size() > 12 && length != std::string::npos &&
      std::from_chars(&head[9], &head[12], answer.status).ec == std::errc() &&
      std::from_chars(&head[length + 16], head.data() + head.size(), size_bytes).ec == std::errc();
  if (!valid) return not_http;
  if (size_bytes > max_bytes) {
    return Error{Code::kFailed,
                 "the answer has " + std::to_string(size_bytes) + " bytes, and at most " +
                     std::to_string(max_bytes) + " are taken",
                 ""};
  }
  while (buffer.size() < end + 4 + size_bytes) RETURN_IF_ERROR(channel.Read(buffer, deadline));
  answer.body = buffer.substr(end + 4, size_bytes);
  return answer;
}

}  // namespace probing::net
