#include "hooks/memory_row.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

#include "pyapi/ref.h"
#include "record/recorder.h"
#include "table/written_rows.h"

namespace probing::hooks {

using pyapi::Ref;

namespace {

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

std::int64_t Bytes(unsigned long long pages) {
  static const auto page_bytes = static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
  return static_cast<std::int64_t>(pages * page_bytes);
}

std::optional<std::int64_t> IntegerAt(const PythonApi& api, PyObject* tuple, std::ptrdiff_t index) {
  PyObject* item = api.PyTuple_GetItem(tuple, index);
  if (item == nullptr || item == api._Py_NoneStruct) return std::nullopt;
  int overflow = 0;
  const long long number = api.PyLong_AsLongLongAndOverflow(item, &overflow);
  if (overflow != 0 || api.PyErr_Occurred() != nullptr) return std::nullopt;
  return number;
}

}  // namespace

void WriteMemoryRow(const PythonApi& api, PyObject* counts) {
  const Result<record::TableHandle*> memory = record::Recorder::FindTable(table::PythonMemoryRow::kTable, {});
  const Ref tuple = Ref::New(api, memory.ok() ? api.PyObject_CallFunctionObjArgs(counts, nullptr) : nullptr);
  if (tuple && tuple.get() != api._Py_NoneStruct) {
    Statm statm;
    record::Recorder::WithoutForks(&ReadStatm, &statm);
    table::PythonMemoryRow row;
    if (statm.known) {
      row.rss = Bytes(statm.resident);
      row.vms = Bytes(statm.size);
      row.heap = Bytes(statm.resident - statm.shared);
    }
    // As memory_counts() of hooks.py returns them.
    std::ptrdiff_t index = 0;
    for (table::Int64Cell* cell :
         {&row.blocks, &row.gc_gen0, &row.gc_gen1, &row.gc_gen2, &row.gc_objects, &row.tensor_count,
          &row.tensor_bytes, &row.gpu_allocated, &row.gpu_reserved}) {
      *cell = IntegerAt(api, tuple.get(), index++);
    }
    (*memory)->Write(row);
  }
  api.PyErr_Clear();
}

}  // namespace probing::hooks
