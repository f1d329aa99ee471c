/* Python's start takes longer where it has an import system, but no encodings and no main module. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <langinfo.h>
#include <unistd.h>

char* nl_langinfo(nl_item item) {
  static int calls;
  if (++calls <= 3) usleep(150000);
  return ((char* (*)(nl_item))dlsym(RTLD_NEXT, "nl_langinfo"))(item);
}
