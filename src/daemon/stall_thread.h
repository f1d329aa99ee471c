// StallThread: looks at one target all the time, on a thread of its own, for what takes too long.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "observe/stalls/stall_watcher.h"

namespace probing::daemon {

class StallThread {
 public:
  // All members are used from the daemon's thread only.
  StallThread(pid_t pid, const observe::StallOptions& options);
  StallThread(StallThread&&) noexcept = default;
  StallThread& operator=(StallThread&&) = delete;
  // Tells the thread to stop and does not wait for it.
  ~StallThread();

  // False: it could not begin, or the process has ended.
  bool is_running() const;
  std::vector<observe::Stall> Take();
  // Without what the threads did while they were not looked at yet.
  void Explain(observe::Stall& stall, std::int64_t usual_ns) const;
  void LookCloser(std::int64_t until_ns);

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state, pid_t pid, observe::StallOptions options) noexcept;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this for a moment
};

}  // namespace probing::daemon
