// Waits for ever. Built static and with musl it is a target that must be refused.
#include <stdio.h>
#include <unistd.h>

int main(void) {
  printf("ready\n");
  fflush(stdout);
  for (;;) pause();
}
