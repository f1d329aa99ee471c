// Enters a running process: loads a shared library into it by ptrace.
//
// One thread is held for some tens of microseconds, the others never. The injector may be
// killed at any instruction: the target restores itself (docs/design/injection.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace probing::inject {

struct Options {
  pid_t pid = 0;
  std::string library_path;
  std::int64_t timeout_ms = 5000;
  // Load the library in a child of our own first: what crashes there must not get near the target.
  bool rehearse = false;
};

struct Report {
  pid_t held_thread = 0;
  std::int64_t held_us = 0;   // how long that thread was stopped
  std::int64_t total_us = 0;  // from first look to library loaded
  int attempts = 0;           // stops until a safe point was found
};

// Loads the library and returns when its constructors have run. On any error the target is as
// it was before. Does not run the preflight checks.
Result<Report> Inject(const Options& options);

// One thing that could stop an attach.
struct Check {
  std::string name;  // "owner", "Yama", "seccomp"…
  bool passed = true;
  std::string detail;  // what was found
  Error error;         // set when !passed: what it means and what to do about it
};

// All checks in the order in which they matter, for `doctor`. Touches nothing.
std::vector<Check> Examine(pid_t pid);

// Checks of this machine alone, for `doctor` without a pid.
std::vector<Check> ExamineHost();

// The first failed check as an error.
Result<void> Preflight(pid_t pid);

}  // namespace probing::inject
