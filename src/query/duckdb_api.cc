#include "query/duckdb_api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"

namespace probing::query {
namespace {

Result<DuckDb> Load() {
  const std::vector<std::string> candidates = DuckDbCandidates();
  std::string tried;
  for (const std::string& path : candidates) {
    tried += (tried.empty() ? "" : ", ") + path;
    if (access(path.c_str(), R_OK) != 0) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Error{Code::kFailed, "cannot load DuckDB: " + std::string(dlerror()),
                   "queries need glibc 2.25 or newer and libstdc++.so.6 on this host"};
    }
    DuckDb api;
    const char* missing = nullptr;
#define PROBING_RESOLVE(name)                                                       \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "duckdb_" #name)); \
  if (api.name == nullptr) missing = "duckdb_" #name;
    PROBING_DUCKDB_FUNCTIONS(PROBING_RESOLVE)
#undef PROBING_RESOLVE
    if (missing != nullptr) {
      return Error{Code::kFailed, path + " has no function " + missing,
                   "use the libduckdb.so that came with probingd"};
    }
    return api;
  }
  return Error{Code::kFailed, "libduckdb.so, which runs queries, is in none of: " + tried,
               "put it beside probingd, or name the file in PROBING_DUCKDB"};
}

}  // namespace

std::vector<std::string> DuckDbCandidates() {
  std::vector<std::string> candidates;
  if (const Result<std::string> self = ReadLink("/proc/self/exe"); self.ok()) {
    const std::string folder = self->substr(0, self->rfind('/'));
    candidates = {folder + "/libduckdb.so", folder + "/../lib/probing/libduckdb.so",
                  folder + "/../lib/libduckdb.so"};
  }
  if (const char* path = std::getenv("PROBING_DUCKDB"); path != nullptr) candidates.emplace_back(path);
  return candidates;
}

Result<const DuckDb*> LoadDuckDb() {
  static const Result<DuckDb> loaded = Load();
  if (!loaded.ok()) return loaded.error();
  return &loaded.value();
}

const DuckDb& LoadedDuckDb() {
  static const DuckDb& api = *LoadDuckDb().value();
  return api;
}

}  // namespace probing::query
