// The programs above a rank: who started it, and what people would call the job.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace probing::process {

// By the words of its command line: "torchrun", "python -m torch.distributed.run", and shells and other
// wrappers, which pass their variables on to what they start as launchers do.
bool IsLauncher(pid_t pid, const std::string& proc_root);

// What torchrun was told by --rdzv-endpoint, as one word or two; "" when it was not.
std::string RendezvousOf(pid_t pid, const std::string& proc_root);

// A name for the job that a rank belongs to: "train.py-1118-2031-4711" is the script, when its launcher was
// started (month and day, hour and minute, UTC) and the launcher's pid, so that two jobs never share it and a
// job that is started again by its launcher keeps it. The launcher is torchrun and the like, or, for a rank
// that multiprocessing started, the program that did. "" where there is none.
std::string NameByLauncher(pid_t rank, const std::string& proc_root);

// "train.py" of the launcher above the rank; "" where there is none.
std::string ScriptByLauncher(pid_t rank, const std::string& proc_root);

// Whether this is "3f1c8b2e-…", which a launcher draws when nobody names the job.
bool IsUuid(std::string_view text);

}  // namespace probing::process
