#include "net/http_request.h"

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

}  // namespace probing::net
