// The environment of a process, which it may have written over.
#include <cstdint>

#include "process/job_identity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)probing::process::ParseJobIdentity({reinterpret_cast<const char*>(data), size});
  return 0;
}
