// Urgent: this thread runs before others as long as it exists.
//
// While a thread of the target is stopped, nothing on this machine is more urgent than letting it
// go. Only the superuser may say so; without, the stop is short unless the machine is overloaded.
#pragma once

#include <sched.h>

namespace probing::process {

class Urgent {
 public:
  Urgent() {
    sched_param parameters{};
    before_ = sched_getscheduler(0);
    sched_getparam(0, &before_parameters_);
    parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
    raised_ = sched_setscheduler(0, SCHED_FIFO, &parameters) == 0;
  }
  ~Urgent() {
    if (raised_) sched_setscheduler(0, before_, &before_parameters_);
  }
  Urgent(const Urgent&) = delete;
  Urgent& operator=(const Urgent&) = delete;

 private:
  int before_ = 0;
  sched_param before_parameters_{};
  bool raised_ = false;
};

}  // namespace probing::process
