/* Waits when the process ends, which is after the interpreter's end. */
#include <unistd.h>

__attribute__((destructor)) void wait_after_python(void) {
  (void)!write(1, "ready\n", 6);
  pause();
}
