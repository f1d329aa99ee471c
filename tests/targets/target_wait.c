// Waits for ever. Built static, with musl and for 32 bits it is a target that must be refused.
#include <stdio.h>
#include <unistd.h>

int main(void) {
  printf("ready\n");
  fflush(stdout);
  for (;;) pause();
}
