// Code that Cython made: what its functions are called, and which lines of a .pyx file they come from.
//
// Debug information knows the generated C file only, unless it was made with --line-directives. That file
// says in comments where each part comes from, and often is still where it was compiled. All of it is
// untrusted.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "unwind/native_stack.h"

namespace probing::unwind {

// "shop.Till.ring" of "__pyx_pf_4shop_4Till_2ring"; "" for a name that Cython did not make of a function's.
std::string CythonName(std::string_view symbol);

// Not thread-safe.
class CythonSources {
 public:
  // Replaces file and line of a generated C file by those of the .pyx, where that file can be read as the
  // process `pid` sees it and says so.
  void Translate(pid_t pid, SourcePlace& place);

  struct Mark {
    std::uint32_t line = 0;         // of the C file; what follows comes from...
    std::string file;               // ...this file, as Cython wrote it,
    std::uint32_t source_line = 0;  // and this line
  };
  // The comments of a generated file, in their order; none when Cython did not make it.
  static std::vector<Mark> ReadMarks(std::string_view text);

 private:
  std::unordered_map<std::string, std::vector<Mark>> marks_;  // by C file
};

}  // namespace probing::unwind
