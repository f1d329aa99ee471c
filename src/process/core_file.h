// A dead process: an ELF core file (of the kernel, gcore…) as memory, mappings and threads.
//
//   ASSIGN_OR_RETURN(CoreFile core, CoreFile::Open("core.1234"));
//   core.memory->ReadValue(…);
//
// A core rarely holds everything: pages that are the same in a file are mostly left out. Those are
// read from the mapped files, which must be the same ones as then: where the core has a file's first
// page, it is compared. What the core promised and a full disk cut off is an error when it is read.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/registers.h"
#include "base/result.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::process {

struct CoreFile {
  // `executable`: the program, when it is not (or no longer the same) at the path where it ran; or a
  // folder with the mapped files: at their old paths in it or, found by their first bytes, anywhere in it.
  // "" for neither.
  // kUsage: no such file. kFailed: it is no core file that can be read here.
  static Result<CoreFile> Open(const std::string& path, const std::string& executable);

  std::unique_ptr<const Memory> memory;  // does not depend on this object
  Maps maps;
  pid_t pid = 0;                               // in the namespace of whoever wrote the core
  std::vector<pid_t> tids;                     // the main thread first
  std::map<pid_t, arch::Registers> registers;  // of each of them
  std::string command;
  std::string other_processor;  // "arm64", when it is not this machine's: then there are no registers
  std::string signal;           // "killed by SIGSEGV at address 0x10 (not mapped)"; "" when nobody knows
  bool is_truncated = false;    // the file ends before what its headers announce
  // Files that would be needed for some parts of memory: not there, or not the same ones.
  std::vector<std::string> missing_files;
  // Where the other mapped files are, by the path where they were.
  std::map<std::string, std::string> found_files;
};

}  // namespace probing::process
