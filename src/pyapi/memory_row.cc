#include "pyapi/memory_row.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "pyapi/recorder.h"

namespace probing::pyapi {
namespace {

// Columns of python.memory in their order: what the kernel says, then what memory_counts() returns.
constexpr std::size_t kKernelColumns = 3;
constexpr std::size_t kCounts = 9;
constexpr std::size_t kColumns = 1 + kKernelColumns + kCounts;

struct Statm {
  unsigned long long size = 0, resident = 0, shared = 0;  // pages
  bool known = false;
};

void ReadStatm(void* argument) {
  std::array<char, 128> text{};
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  auto& statm = *static_cast<Statm*>(argument);
  statm.known = size > 0 &&
                std::sscanf(text.data(), "%llu %llu %llu", &statm.size, &statm.resident, &statm.shared) == 3;
}

ring::Cell Bytes(unsigned long long pages) {
  static const auto page_bytes = static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
  return ring::Cell::Int(static_cast<std::int64_t>(pages * page_bytes));
}

ring::Cell IntegerAt(const PythonApi& api, PyObject* tuple, std::size_t index) {
  PyObject* item = api.PyTuple_GetItem(tuple, static_cast<std::ptrdiff_t>(index));
  if (item == nullptr || item == api._Py_NoneStruct) return ring::Cell::Null();
  int overflow = 0;
  const long long number = api.PyLong_AsLongLongAndOverflow(item, &overflow);
  if (overflow != 0 || api.PyErr_Occurred() != nullptr) return ring::Cell::Null();
  return ring::Cell::Int(number);
}

}  // namespace

void WriteMemoryRow(const PythonApi& api, PyObject* counts) {
  const Result<TableHandle*> table = Recorder::FindTable("python.memory", {});
  PyObject* tuple = table.ok() ? api.PyObject_CallFunctionObjArgs(counts, nullptr) : nullptr;
  if (tuple != nullptr && tuple != api._Py_NoneStruct) {
    Statm statm;
    Recorder::WithoutForks(&ReadStatm, &statm);
    std::array<ring::Cell, kColumns> row;
    row.fill(ring::Cell::Null());
    if (statm.known) {
      row[1] = Bytes(statm.resident);
      row[2] = Bytes(statm.size);
      row[3] = Bytes(statm.resident - statm.shared);
    }
    for (std::size_t i = 0; i < kCounts; ++i) {
      row[1 + kKernelColumns + i] = IntegerAt(api, tuple, i);
    }
    (*table)->Write(row.data(), kColumns);
  }
  if (tuple != nullptr) api.Py_DecRef(tuple);
  api.PyErr_Clear();
}

}  // namespace probing::pyapi
