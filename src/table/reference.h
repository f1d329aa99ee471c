// What is made from the declarations: docs/reference/tables.md, and rows for code that writes some
// (written_rows.h).
#pragma once

#include <string>

namespace probing::table {

std::string Reference();
std::string WrittenRows();

}  // namespace probing::table
