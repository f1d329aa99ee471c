// Prints docs/reference/tables.md (`make reference`).
#include <cstdio>

#include "table/reference.h"

int main() {
  std::fputs(probing::table::Reference().c_str(), stdout);
  return 0;
}
