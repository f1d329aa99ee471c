#include "net/http_answer.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace probing::net {
namespace {

constexpr std::size_t kMaxHeadBytes = 256 << 10;
constexpr std::size_t kMaxChunkLine = 1 << 10;

Error TooLong(std::size_t size_bytes, std::size_t max_bytes) {
  return {Code::kFailed,
          "the answer has " + std::to_string(size_bytes) + " bytes, and at most " +
              std::to_string(max_bytes) + " are taken",
          ""};
}

// A length in hexadecimal, a line end, that many bytes, a line end; the last one has no bytes. `buffer`
// begins with what has come already.
Result<std::string> ReadChunks(Channel& channel, const std::optional<Deadline>& deadline,
                               std::size_t max_bytes, std::string buffer) {
  std::string body;
  while (true) {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n")) == std::string::npos) {
      if (buffer.size() > kMaxChunkLine)
        return Error{Code::kFailed, "a chunk of the answer has no length", ""};
      RETURN_IF_ERROR(channel.Read(buffer, deadline));
    }
    std::size_t size_bytes = 0;
    if (std::from_chars(buffer.data(), buffer.data() + end, size_bytes, 16).ec != std::errc())
      return Error{Code::kFailed, "a chunk of the answer has no length", ""};
    if (size_bytes > max_bytes - body.size()) return TooLong(body.size() + size_bytes, max_bytes);
    const std::size_t begin = end + 2;
    while (buffer.size() < begin + size_bytes + 2) RETURN_IF_ERROR(channel.Read(buffer, deadline));
    if (size_bytes == 0) return body;
    body.append(buffer, begin, size_bytes);
    buffer.erase(0, begin + size_bytes + 2);
  }
}

}  // namespace

std::vector<std::string> HttpAnswer::Headers(std::string_view name) const {
  std::vector<std::string> values;
  for (std::string_view rest = head; !rest.empty();) {
    std::string_view value = Trim(TakePart(rest, '\n'), "\r");
    // Servers write names as they like: those behind some proxies have no capital letters.
    if (std::ranges::equal(TakePart(value, ':'), name, {}, Lower, Lower))
      values.emplace_back(Trim(value, " \t"));
  }
  return values;
}

Result<HttpAnswer> ReadAnswerHead(Channel& channel, const std::optional<Deadline>& deadline) {
  const Error not_http{Code::kFailed, channel.who() + " answered something that is not HTTP", ""};
  std::string buffer;
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (buffer.size() > kMaxHeadBytes) return not_http;
    RETURN_IF_ERROR(channel.Read(buffer, deadline));
  }
  HttpAnswer answer;
  answer.head = buffer.substr(0, end + 2);
  answer.body = buffer.substr(end + 4);
  const std::string& head = answer.head;
  const bool valid = (head.starts_with("HTTP/1.1 ") || head.starts_with("HTTP/1.0 ")) && head.size() > 12 &&
                     std::from_chars(&head[9], &head[12], answer.status).ec == std::errc();
  if (!valid) return not_http;
  return answer;
}

Result<HttpAnswer> ReadAnswer(Channel& channel, const std::optional<Deadline>& deadline,
                              std::size_t max_bytes) {
  ASSIGN_OR_RETURN(HttpAnswer answer, ReadAnswerHead(channel, deadline));
  std::size_t size_bytes = 0;
  const std::vector<std::string> lengths = answer.Headers("content-length");
  const std::vector<std::string> encodings = answer.Headers("transfer-encoding");
  const bool is_chunked = !encodings.empty() && encodings.back() == "chunked";
  if (!answer.head.starts_with("HTTP/1.1 ") ||
      (!is_chunked && (lengths.empty() || !ParseNumber(lengths.front(), size_bytes))))
    return Error{Code::kFailed, channel.who() + " answered something that is not HTTP", ""};
  if (is_chunked) {
    ASSIGN_OR_RETURN(answer.body, ReadChunks(channel, deadline, max_bytes, std::move(answer.body)));
    return answer;
  }
  if (size_bytes > max_bytes) return TooLong(size_bytes, max_bytes);
  while (answer.body.size() < size_bytes) RETURN_IF_ERROR(channel.Read(answer.body, deadline));
  answer.body.resize(size_bytes);
  return answer;
}

}  // namespace probing::net
