// A second profiler plugin, behind ours: counts what it gets and checks that every handle is one of its own.
// Built with -DVERSION=4, 5 or 6. At the end it writes what it saw to NCCL_NEXT_REPORT, as JSON.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if VERSION == 4
typedef uint8_t Type;
#else
typedef uint64_t Type;
#endif
struct Descr {
  Type type;
  void* parentObj;
  int rank;
};
namespace {
constexpr unsigned kMagic = 0x4e455854;
struct Mine {
  unsigned magic = kMagic;
  uint64_t type = 0;
};
std::atomic<int> inits{0}, starts[15], stops{0}, records{0}, wrong{0}, orphans{0};
int context_;

Mine* Check(void* handle) {
  auto* mine = static_cast<Mine*>(handle);
  if (reinterpret_cast<uintptr_t>(handle) % 8 != 0 || mine->magic != kMagic) return ++wrong, nullptr;
  return mine;
}
int Start(void* context, void** handle, Descr* descr) {
  if (context != &context_) ++wrong;
  const uint64_t type = descr->type;
  for (int i = 0; i < 15; ++i) starts[i] += type == (1u << i);
  if (type >= 2 && type <= 64) {  // parts have a parent: of a step the network's part, else the operation
    Mine* parent = descr->parentObj ? Check(descr->parentObj) : nullptr;
    const uint64_t expected = type == 16 ? 8 : type == 2 ? (VERSION == 4 ? 1 : 512) : type == 4 ? 0 : 2;
    if (expected && (!parent || parent->type != expected)) ++orphans;
  }
  auto* mine = new Mine;  // kept: late calls must find it
  mine->type = type;
  *handle = mine;
  return 0;
}
int Stop(void* handle) { return Check(handle), ++stops, 0; }
int Record(void* handle, int, void*) { return Check(handle), ++records, 0; }
int Finalize(void* context) {
  if (context != &context_) ++wrong;
  if (--inits > 0) return 0;
  if (FILE* report = std::fopen(std::getenv("NCCL_NEXT_REPORT"), "w")) {
    std::fprintf(report,
                 "{\"coll\": %d, \"proxy_op\": %d, \"step\": %d, \"group\": %d, \"stops\": %d, \"records\": "
                 "%d, \"wrong\": %d, \"orphans\": %d}\n",
                 starts[1].load(), starts[3].load(), starts[4].load(), starts[0].load(), stops.load(),
                 records.load(), wrong.load(), orphans.load());
    std::fclose(report);
  }
  return 0;
}
int Begin(void** context, int* mask) { return *context = &context_, *mask = 2 | 8 | 16, ++inits, 0; }
#if VERSION == 4
int Init(void** context, int* mask, const char*, uint64_t, int, int, int, void*) {
  return Begin(context, mask);
}
#else
int Init(void** context, uint64_t, int* mask, const char*, int, int, int, void*) {
  return Begin(context, mask);
}
#endif
}  // namespace
#define NAME2(v) ncclProfiler_v##v
#define NAME(v) NAME2(v)
extern "C" {
struct {
  const char* name;
  decltype(&Init) init;
  decltype(&Start) start;
  decltype(&Stop) stop;
  decltype(&Record) record;
  decltype(&Finalize) finalize;
} NAME(VERSION) = {"next", Init, Start, Stop, Record, Finalize};
}
