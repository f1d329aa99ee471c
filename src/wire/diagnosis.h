// Where probingd answers what is wrong (daemon/diagnosis.h says what comes back).
#pragma once

#include <string_view>

namespace probing::wire {

inline constexpr std::string_view kDiagnoseRoute = "/api/v1/diagnose";

}  // namespace probing::wire
