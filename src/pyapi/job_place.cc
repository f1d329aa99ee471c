#include "pyapi/job_place.h"

#include <atomic>

namespace probing::pyapi {
namespace {

constexpr std::int64_t kNone = -1;

// In one word, so that they belong together: the rank above, the world size below.
std::atomic<std::int64_t> noted{kNone};

std::int64_t NumberAt(const PythonApi& api, PyObject* tuple, std::ptrdiff_t index) {
  PyObject* item = api.PyTuple_GetItem(tuple, index);
  if (item == nullptr) return kNone;
  int overflow = 0;
  const long long number = api.PyLong_AsLongLongAndOverflow(item, &overflow);
  const bool is_fine = overflow == 0 && api.PyErr_Occurred() == nullptr && number >= 0 && number <= INT32_MAX;
  return is_fine ? number : kNone;
}

}  // namespace

void NoteJobPlace(const PythonApi& api, PyObject* place) {
  PyObject* tuple = api.PyObject_CallFunctionObjArgs(place, nullptr);
  std::int64_t now = kNone;
  if (tuple != nullptr && tuple != api._Py_NoneStruct) {
    const std::int64_t rank = NumberAt(api, tuple, 0);
    const std::int64_t world_size = NumberAt(api, tuple, 1);
    if (rank >= 0 && rank < world_size) now = rank << 32 | world_size;
  }
  noted.store(now);
  if (tuple != nullptr) api.Py_DecRef(tuple);
  api.PyErr_Clear();
}

std::optional<JobPlace> NotedJobPlace() {
  const std::int64_t now = noted.load();
  if (now == kNone) return std::nullopt;
  return JobPlace{now >> 32, now & INT32_MAX};
}

void ForgetJobPlaceInForkedChild() { noted.store(kNone); }

}  // namespace probing::pyapi
