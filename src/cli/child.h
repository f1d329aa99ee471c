// Work in a process of its own: what it does to this program (which daemon is asked) stays there.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::cli {

struct Child {
  pid_t pid = -1;
  ScopedFd out;  // what it prints, when that is collected
};

// `work` returns the exit code.
Result<Child> StartChild(bool collect, const std::function<int()>& work);

struct ChildOutcome {
  int code = 0;
  std::string out;
};
ChildOutcome Await(Child child);

}  // namespace probing::cli
