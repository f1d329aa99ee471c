// Names of C++ functions as people write them.
#pragma once

#include <string>

namespace probing::unwind {

// "at::native::add(…)" from "_ZN2at6native3addE…"; any other name as it is.
std::string Demangle(const std::string& name);

}  // namespace probing::unwind
