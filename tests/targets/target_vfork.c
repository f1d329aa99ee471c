// The child of a vfork() that does not come to exec: it runs in the memory of its parent, who waits.
#include <unistd.h>

#include "report.h"

int main(void) {
  volatile uint64_t* slots = ReportOpen();
  const pid_t child = vfork();
  if (child == 0) {
    slots[1] = (uint64_t)getpid();
    ReportReady("loops child");
    for (;;) {
      ++slots[0];
      usleep(1000);
    }
  }
  return 0;
}
