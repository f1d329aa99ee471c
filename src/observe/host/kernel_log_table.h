// system.kernel_log: the kernel's log, read when the table is asked for: also what was logged before probingd
// came.
#pragma once

#include <memory>
#include <string>

#include "table/source.h"

namespace probing::observe {

// "" stands for PROBING_KMSG, else /dev/kmsg. What cannot be read is said in the answer's note.
std::shared_ptr<table::Source> MakeKernelLogSource(const std::string& path = "");

}  // namespace probing::observe
