// Makes an interpreter of a program that has CPython inside of it (tools/old_pythons.py): preloaded, it runs
// `SCRIPT [ARGUMENT…]` or `-c CODE [ARGUMENT…]` instead of that program's main().
#define _GNU_SOURCE
#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { kMaxArguments = 256, kMaxPath = 4096 };

typedef int (*Main)(int, char**, char**);
typedef wchar_t* (*Decode)(const char*, size_t*);

static Main their_main;

static void* Function(const char* name) { return dlsym(RTLD_DEFAULT, name); }

static Decode Decoder(void) {
  Decode decode = (Decode)Function("Py_DecodeLocale");                  // since 3.5
  return decode != NULL ? decode : (Decode)Function("_Py_char2wchar");  // before
}

static int RunPython(int argc, char** argv, char** environment) {
  void (*initialize)(void) = (void (*)(void))Function("Py_Initialize");
  if (initialize == NULL) return their_main(argc, argv, environment);
  unsetenv("LD_PRELOAD");
  setlocale(LC_ALL, "C.UTF-8");
  const Decode decode = Decoder();
  wchar_t path[kMaxPath];
  swprintf(path, kMaxPath, L"%s", getenv("OLD_PYTHON_PATH"));
  ((void (*)(const wchar_t*))Function("Py_SetPath"))(path);
  ((void (*)(wchar_t*))Function("Py_SetProgramName"))(decode(getenv("OLD_PYTHON"), NULL));
  *(int*)Function("Py_NoSiteFlag") = 1;
  *(int*)Function("Py_FrozenFlag") = 1;  // no word about folders it does not find
  initialize();
  void* executable = ((void* (*)(const char*))Function("PyUnicode_DecodeFSDefault"))(getenv("OLD_PYTHON"));
  ((int (*)(const char*, void*))Function("PySys_SetObject"))("executable", executable);

  int at = 1;  // options like -u mean nothing here
  while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0' && argv[at][1] != 'c') ++at;
  if (at >= argc) return 2;
  wchar_t* words[kMaxArguments];
  int count = 0;
  for (int i = at; i < argc && count < kMaxArguments; ++i) words[count++] = decode(argv[i], NULL);
  void (*set_arguments)(int, wchar_t**, int) = (void (*)(int, wchar_t**, int))Function("PySys_SetArgvEx");
  int failed = 0;
  if (strcmp(argv[at], "-c") == 0) {
    if (at + 1 >= argc) return 2;
    set_arguments(count - 1, words + 1, 0);
    failed = ((int (*)(const char*, void*))Function("PyRun_SimpleStringFlags"))(argv[at + 1], NULL);
  } else {
    FILE* script = fopen(argv[at], "r");
    if (script == NULL) return 2;
    set_arguments(count, words, 1);
    failed = ((int (*)(FILE*, const char*, int, void*))Function("PyRun_AnyFileExFlags"))(script, argv[at], 1,
                                                                                         NULL);
  }
  ((void (*)(void))Function("Py_Finalize"))();
  return failed != 0;
}

int __libc_start_main(Main main_function, int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void* stack_end) {
  int (*real)(Main, int, char**, void (*)(void), void (*)(void), void (*)(void), void*) =
      dlsym(RTLD_NEXT, "__libc_start_main");
  their_main = main_function;
  return real(RunPython, argc, argv, init, fini, rtld_fini, stack_end);
}
