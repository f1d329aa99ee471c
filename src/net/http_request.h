// A request as probingd takes it.
#pragma once

#include <string>
#include <string_view>

namespace probing::net {

// Up to its last field, so that others can follow. `token` may be "".
std::string RequestHead(std::string_view method, std::string_view path, std::string_view host,
                        std::string_view token);

// The head, and what is said in JSON.
std::string WithBody(std::string head, std::string_view json);

}  // namespace probing::net
