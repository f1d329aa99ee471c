// What the notes of an ELF core file say: whose memory it is, its threads, which files were mapped.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "arch/registers.h"

namespace probing::process {

struct CoreNotes {
  struct File {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t offset = 0;  // bytes into the file
    std::string path;
  };

  // Why it was written (NT_SIGINFO of the first thread). What a debugger stops threads with is no reason.
  struct Signal {
    int number = 0;             // 0: unknown
    int code = 0;               // si_code: SEGV_MAPERR…; up to 0 somebody sent it
    std::uint64_t address = 0;  // where it happened; for signals of faults only
    pid_t sender = 0;           // for signals that were sent only
  };

  Signal signal;
  pid_t pid = 0;                               // 0 when there is no NT_PRPSINFO
  std::string command;                         // with arguments, cut by the kernel after 79 bytes
  std::vector<pid_t> tids;                     // NT_PRSTATUS, as they come
  std::map<pid_t, arch::Registers> registers;  // of these threads
  std::vector<File> files;                     // NT_FILE, as they come; start < end
  std::uint64_t entry = 0;  // where the program starts (NT_AUXV): tells its file from the libraries
};

// "killed by SIGSEGV at address 0x10 (not mapped)"; "" when the signal is unknown.
std::string SignalText(const CoreNotes::Signal& signal);

// Reads one PT_NOTE segment into `notes`. Everything in it is untrusted: what makes no sense is left
// out, and a note that is cut off ends the reading.
void ParseCoreNotes(std::span<const std::byte> segment, CoreNotes& notes);

}  // namespace probing::process
