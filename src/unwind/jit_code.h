// Functions that a process compiled while it runs: numba, LLVM's other users, `python -X perf`.
//
// Two ways in which a JIT tells others about them: the GDB JIT interface (`__jit_debug_descriptor`, a list of
// ELF objects in the target's memory, with symbols and unwind tables) and perf's map, a text file in /tmp
// that is read only when it belongs to the target's user. Looked for when code without a file is met, not
// before. Everything is untrusted and bounded. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "process/memory.h"
#include "unwind/cfi.h"
#include "unwind/modules.h"

namespace probing::unwind {

class JitCode {
 public:
  // `pid` is 0 for a process that is dead: it has no map. Lifetime: what is passed must outlive the call.
  void Update(pid_t pid, Modules& modules, const FindFile& find_file, const process::Memory& memory);

  // Start and name, mangled or not, of the function at `pc`.
  std::optional<Symbol> FindSymbol(std::uint64_t pc) const;
  // kNotFound: no unwind table describes it.
  Result<Row> FindRow(std::uint64_t pc, const process::Memory& memory) const;

  // "<start> <size> <name>" per line, numbers in hexadecimal; lines that make no sense are skipped.
  void ParsePerfMap(std::string_view text);
  // An object as LLVM registers it: sections have the addresses they were loaded at.
  void AddObject(const ElfFile& object);

 private:
  struct Code {
    std::uint64_t end;
    std::string name;
    std::uint64_t table_start, table_bytes;  // .eh_frame in the target; 0 when there is none
  };
  void ReadDescriptor(std::uint64_t address, const process::Memory& memory);

  std::map<std::uint64_t, Code> functions_;  // by start
};

// Whether this is one of the functions that `python -X perf` puts around Python's: the Python frame says it
// all.
bool IsPythonTrampoline(std::string_view name);

}  // namespace probing::unwind
