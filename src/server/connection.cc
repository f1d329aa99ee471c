#include "server/connection.h"

#include <array>

namespace probing::server {
namespace asio = boost::asio;

asio::awaitable<void> SayGoodbye(Connection& connection) {
  boost::system::error_code ignored;
  connection.stream.socket().shutdown(Stream::socket_type::shutdown_send, ignored);
  connection.stream.expires_after(std::chrono::seconds(1));
  while (true) {
    connection.buffer.clear();
    const auto [error, size] =
        co_await connection.stream.async_read_some(connection.buffer.prepare(65536), kAwait);
    if (error) co_return;
  }
}

// "DELETE FROM t" is SQL and "DELETE /x" is HTTP: what follows the method decides.
Protocol Sniff(std::string_view bytes) {
  constexpr char kTlsHandshake = 0x16;
  constexpr std::array<std::string_view, 10> kMethods{"GET ",     "HEAD ",  "POST ",  "PUT ",     "DELETE ",
                                                      "OPTIONS ", "PATCH ", "TRACE ", "CONNECT ", "PRI "};
  if (bytes.empty()) return Protocol::kUnknown;
  if (bytes[0] == kTlsHandshake) return Protocol::kTls;
  for (const std::string_view method : kMethods) {
    if (bytes.size() <= method.size() && method.starts_with(bytes)) return Protocol::kUnknown;
    if (!bytes.starts_with(method)) continue;
    const std::string_view rest = bytes.substr(method.size());
    if (rest[0] == '/' || rest[0] == '*' || method == "CONNECT ") return Protocol::kHttp;
    constexpr std::string_view kAbsolute = "http";
    if (rest.size() < kAbsolute.size() && kAbsolute.starts_with(rest)) return Protocol::kUnknown;
    return rest.starts_with(kAbsolute) ? Protocol::kHttp : Protocol::kText;
  }
  return Protocol::kText;
}

}  // namespace probing::server
