// A request as probingd takes it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace probing::net {

// Up to its last field, so that others can follow. `token` may be "".
std::string RequestHead(std::string_view method, std::string_view path, std::string_view host,
                        std::string_view token);

// The head, and what is said in JSON.
std::string WithBody(std::string head, std::string_view json);

// "name=value&…" with what has to be escaped.
std::string UrlQuery(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace probing::net
