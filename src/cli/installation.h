// Where the other two programs are: beside this one, or where a package puts them.
#pragma once

#include <string>

#include "base/result.h"
#include "process/maps.h"

namespace probing::cli {

// libprobing.so beside the executable, else in ../lib/probing (a wheel, `make install`) or ../lib. Absolute.
Result<std::string> FindLibrary();

// probingd beside the executable.
Result<std::string> FindDaemon();

// Whether this part of a process is a probe's library. One that was injected is a memory file of its name.
bool IsProbeLibrary(const process::Mapping& mapping);

}  // namespace probing::cli
