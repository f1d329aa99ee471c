// Who keeps everybody else from running Python: read from outside, since the target cannot say.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace probing::daemon {

struct GilHolder {
  pid_t tid = 0;
  std::string name;
  std::vector<std::string> stack;  // innermost first: "train (a.py:12)"
};

// Nothing when nobody holds it at this moment, or when the interpreter cannot be read.
std::optional<GilHolder> FindGilHolder(pid_t pid);

// The same of a thread that is named.
std::optional<GilHolder> FindThread(pid_t pid, pid_t tid);

}  // namespace probing::daemon
