// Names of C++ functions as people write them.
#pragma once

#include <cstddef>
#include <string>

namespace probing::unwind {

// "at::native::add(…)" from "_ZN2at6native3addE…", "shop.Till.ring" from "__pyx_pf_4shop_4Till_2ring"
// (Cython); any other name as it is.
std::string Demangle(const std::string& name);

// What fits in a picture: "at::native::add<...>" from "void at::native::add<float, 4>(at::Tensor&)".
// Of names that are no C++ the name itself.
std::string ShortName(const std::string& demangled);

// The name in at most `columns` bytes. Its end, the function's own name, matters most: first what it returns,
// template arguments and parameters are left out, then leading namespaces. 0: as long as it is.
std::string FitName(const std::string& demangled, std::size_t columns);

}  // namespace probing::unwind
