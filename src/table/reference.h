// docs/reference/tables.md, from the declarations.
#pragma once

#include <string>

namespace probing::table {

std::string Reference();

}  // namespace probing::table
