// A native part of a job that has a table of its own, `loader.batches`.
//
// Nothing of Probing is linked: the two functions are looked up when they are needed, and without a probe
// in the process the job runs as it always did.
//
//   g++ -std=c++17 -O2 -shared -fPIC -Iinclude -o libbatches.so examples/plugin_cpp/batches.cc -ldl
#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "probing/probing.h"

namespace {

// The table, or null where there is no probe. Asks again until there is one.
class Batches {
 public:
  bool Add(std::int64_t number, double wait_ms, const char* shard) {
    if (table_ == nullptr && !Open()) return false;
    probing_value row[3] = {};
    row[0].type = PROBING_INT64;
    row[0].as.integer = number;
    row[1].type = PROBING_DOUBLE;
    row[1].as.real = wait_ms;
    row[2].type = shard == nullptr ? PROBING_NULL : PROBING_STRING;
    row[2].as.text = shard;
    row[2].size = shard == nullptr ? 0 : std::strlen(shard);
    return append_(table_, row, 3) == 1;
  }

 private:
  bool Open() {
    // Finds the library however it came (inject, preload, import), and never loads it.
    void* probe = dlopen("libprobing.so", RTLD_NOW | RTLD_NOLOAD);
    if (probe == nullptr) return false;
    auto open = reinterpret_cast<decltype(&probing_open_table)>(dlsym(probe, "probing_open_table"));
    append_ = reinterpret_cast<decltype(&probing_append)>(dlsym(probe, "probing_append"));
    if (open == nullptr || append_ == nullptr) return false;
    static const probing_column kColumns[] = {
        {"number", PROBING_INT64}, {"wait_ms", PROBING_DOUBLE}, {"shard", PROBING_STRING}};
    table_ = open("loader.batches", kColumns, 3);
    return table_ != nullptr;
  }

  probing_table* table_ = nullptr;
  decltype(&probing_append) append_ = nullptr;
};

Batches batches;

}  // namespace

// What the job calls when it has loaded a batch. 1 when somebody records.
extern "C" int loaded_batch(std::int64_t number, double wait_ms, const char* shard) {
  return batches.Add(number, wait_ms, shard) ? 1 : 0;
}
