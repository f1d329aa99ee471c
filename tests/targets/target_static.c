// Python as a part of a program: linked statically, nothing exported. See test_odd_pythons.py.
#include <Python.h>

int main(int argc, char** argv) {
#if PY_VERSION_HEX >= 0x03080000
  return Py_BytesMain(argc, argv);
#else
  wchar_t* arguments[16];
  if (argc > 16) return 1;
  for (int i = 0; i < argc; i++) arguments[i] = Py_DecodeLocale(argv[i], NULL);
  return Py_Main(argc, arguments);
#endif
}
