#include "net/http_request.h"

#include <array>
#include <cstdio>

namespace probing::net {

std::string RequestHead(std::string_view method, std::string_view path, std::string_view host,
                        std::string_view token) {
  std::string head(method);
  head.append(" ").append(path).append(" HTTP/1.1\r\nHost: ").append(host).append("\r\n");
  if (!token.empty()) head.append("Authorization: Bearer ").append(token).append("\r\n");
  return head;
}

std::string WithBody(std::string head, std::string_view json) {
  head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(json.size()) + "\r\n\r\n";
  return head.append(json);
}

std::string UrlQuery(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string query;
  for (const auto& [name, value] : fields) {
    query += (query.empty() ? "" : "&") + name + "=";
    for (const char c : value) {
      const bool plain =
          (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      std::array<char, 4> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "%%%02X", static_cast<unsigned char>(c));
      query += plain ? std::string(1, c) : escaped.data();
    }
  }
  return query;
}

}  // namespace probing::net
