// openapi.json, which travels inside of probingd (CMakeLists.txt).
#pragma once

#include <string_view>

namespace probing::daemon {

extern const std::string_view kOpenApi;

}  // namespace probing::daemon
