// What a record of the kernel's log says, where it is about something that stops or slows jobs: a GPU's
// error, memory that ran out, a task that hangs, hardware that reports errors. Text of the kernel is hostile:
// names in it are anybody's choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "observe/host/proc_text.h"

namespace probing::observe {

struct KernelRecord {
  std::int64_t since_boot_us = 0;
  std::string_view level;  // emergency, alert, critical, error, warning, notice, info, debug; for ever
  std::string message;     // control characters are spaces
  // xid, nvlink, oom, hung_task, lockup, mce, pcie, gpu, link, segfault; "" for all others
  std::string_view kind;
  Number pid;                // the process it names, by the kernel's own number
  std::string process_name;  // as the kernel has it: 15 characters
  std::string pci;           // "0000:65:00" or "0000:65:00.0", where one is named
  Number code;               // of an Xid or SXid
};

// A record of /dev/kmsg, "6,1234,567890,-;message", without the lines that follow it. nullopt for other text.
std::optional<KernelRecord> ParseKernelRecord(std::string_view line);

}  // namespace probing::observe
