// Lines of /proc/PID/maps: a path in it is whatever the target's owner called a file.
#include <cstdlib>

#include "process/maps.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::process;
  const Maps maps = Maps::Parse({reinterpret_cast<const char*>(data), size});
  for (const Mapping& mapping : maps.all()) {
    if (mapping.start >= mapping.end) std::abort();  // everybody subtracts them
    (void)maps.Find(mapping.start);
    (void)BaseName(mapping.path);
  }
  for (const Maps::Object& object : maps.Objects()) {
    if (object.parts.empty()) std::abort();
  }
  return 0;
}
