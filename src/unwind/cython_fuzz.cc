// Names of symbols, and the comments of a C file that Cython made.
#include "unwind/cython.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)unwind::CythonName(text);
  (void)unwind::CythonSources::ReadMarks(text);
  return 0;
}
