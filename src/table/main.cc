// Prints docs/reference/tables.md, or with --rows written_rows.h (`make reference`).
#include <cstdio>
#include <string_view>

#include "table/reference.h"

int main(int count, char** arguments) {
  const bool rows = count > 1 && std::string_view(arguments[1]) == "--rows";
  std::fputs((rows ? probing::table::WrittenRows() : probing::table::Reference()).c_str(), stdout);
  return 0;
}
