// Where processes that evaluated code starts write to, instead of the job's stdout and stderr: two pipes for
// each evaluation, read by the probe's thread.
//
// A process that outlives its evaluation can go on writing: what it says then is read and dropped, so it is
// neither blocked nor ended by it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/scoped_fd.h"
#include "console/output.h"

namespace probing::probe {

class ChildOutput {
 public:
  ChildOutput() = default;
  ~ChildOutput();
  ChildOutput(const ChildOutput&) = delete;
  ChildOutput& operator=(const ChildOutput&) = delete;

  // New pipes; those of the evaluation before belong to what it left running. No pipes when there are no
  // descriptors left: out_fd() is −1 then.
  void Begin(std::size_t most_bytes);
  int out_fd() const { return writers_[0].get(); }
  int err_fd() const { return writers_[1].get(); }

  // What was written since the last time, up to the limit in all.
  console::Printed Read();
  bool cut() const { return cut_; }
  // The evaluation is over. REQUIRES: its last output was read.
  void End();

  // To be watched for input; Read() and DropOld() take it.
  std::vector<int> fds() const;
  void DropOld();

 private:
  std::array<ScopedFd, 2> readers_, writers_;
  std::vector<ScopedFd> old_;
  std::size_t left_ = 0;
  bool cut_ = false;
};

}  // namespace probing::probe
