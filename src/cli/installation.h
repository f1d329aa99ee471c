// Where the other two programs are: beside this one, or where a package puts them.
#pragma once

#include <string>

#include "base/result.h"

namespace probing::cli {

// libprobing.so beside the executable, else in ../lib/probing (a wheel, `make install`) or ../lib. Absolute.
Result<std::string> FindLibrary();

// probingd beside the executable.
Result<std::string> FindDaemon();

}  // namespace probing::cli
