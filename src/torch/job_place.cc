#include "torch/job_place.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "pyapi/ref.h"

namespace probing::torch {

using pyapi::Ref;

namespace {

constexpr std::int64_t kNone = -1;

// In one word, so that they belong together: the rank above, the world size below.
std::atomic<std::int64_t> noted{kNone};

// Text that one thread writes and another may read meanwhile, in words: what is read in the middle of a
// change, which hardly ever comes, is right the next time.
constexpr std::size_t kRoleWords = 16;
std::array<std::atomic<std::uint64_t>, kRoleWords> roles{};

void StoreRoles(std::string_view text) {
  std::array<std::uint64_t, kRoleWords> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof(words) - 1));
  for (std::size_t i = 0; i < kRoleWords; ++i) roles[i].store(words[i], std::memory_order_relaxed);
}

std::string LoadRoles() {
  std::array<std::uint64_t, kRoleWords + 1> words{};  // the last one ends it
  for (std::size_t i = 0; i < kRoleWords; ++i) words[i] = roles[i].load(std::memory_order_relaxed);
  return reinterpret_cast<const char*>(words.data());
}

std::string_view TextAt(const PythonApi& api, PyObject* tuple, std::ptrdiff_t index) {
  PyObject* item = api.PyTuple_GetItem(tuple, index);
  std::ptrdiff_t size = 0;
  const char* text = item != nullptr ? api.PyUnicode_AsUTF8AndSize(item, &size) : nullptr;
  return text != nullptr ? std::string_view(text, static_cast<std::size_t>(size)) : std::string_view();
}

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
  const Ref tuple = Ref::New(api, api.PyObject_CallFunctionObjArgs(place, nullptr));
  std::int64_t now = kNone;
  if (tuple && tuple.get() != api._Py_NoneStruct) {
    const std::int64_t rank = NumberAt(api, tuple.get(), 0);
    const std::int64_t world_size = NumberAt(api, tuple.get(), 1);
    if (rank >= 0 && rank < world_size) now = rank << 32 | world_size;
    StoreRoles(TextAt(api, tuple.get(), 2));
  }
  noted.store(now);
  api.PyErr_Clear();
}

std::optional<JobPlace> NotedJobPlace() {
  const std::int64_t now = noted.load();
  if (now == kNone) return std::nullopt;
  return JobPlace{now >> 32, now & INT32_MAX, LoadRoles()};
}

void ForgetJobPlaceInForkedChild() {
  noted.store(kNone);
  StoreRoles("");
}

}  // namespace probing::torch
