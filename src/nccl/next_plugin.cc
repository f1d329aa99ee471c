#include "nccl/next_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace probing::nccl {
namespace {

constexpr char kVariable[] = "PROBING_NCCL_NEXT";
constexpr int kWarn = 2;                // NCCL_LOG_WARN
constexpr unsigned long kInit = 1;      // NCCL_INIT
constexpr std::size_t kSizeOfV4 = 104;  // of a descriptor

NextPlugin plugin;
std::atomic<bool> is_loaded{false};
bool is_tried = false;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of both, and of loading

// NCCL starts the parents of the events that a plugin asks for, too.
std::uint64_t WithParents(std::uint64_t mask) {
  if ((mask & kNetPlugin) != 0) mask |= kProxyStep;
  if ((mask & kProxyStep) != 0) mask |= kProxyOp;
  if ((mask & (kProxyOp | kKernelCh)) != 0) mask |= kColl | kP2p;
  if ((mask & (kColl | kP2p)) != 0) mask |= kGroup;
  if ((mask & (kCeSync | kCeBatch)) != 0) mask |= kCeColl;
  if ((mask & (kGroup | kColl | kP2p | kKernelLaunch | kCollApi | kP2pApi | kCeColl)) != 0)
    mask |= kGroupApi | kCollApi | kP2pApi;
  return mask;
}

void* OpenLibrary(const char* name) {
  if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  if (std::strchr(name, '/') != nullptr) return nullptr;
  char path[256];
  std::snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// What the other plugin knows a parent of ours by.
void* Translated(void* parent) {
  const auto handle = reinterpret_cast<Handle>(parent);
  if ((handle & 1) == 0) return parent;  // its own, which had no room here
  return NextHandleOf(handle);
}

}  // namespace

NextPlugin& NextPlugin::Get(int version, Logger log) {
  pthread_mutex_lock(&mutex);
  if (!is_tried) plugin.Load(version, log);
  is_tried = true;
  pthread_mutex_unlock(&mutex);
  return plugin;
}

NextPlugin* NextPlugin::Loaded() { return is_loaded.load(std::memory_order_acquire) ? &plugin : nullptr; }

void NextPlugin::Load(int version, Logger log) {
  const char* name = std::getenv(kVariable);
  if (name == nullptr || *name == 0) return;
  void* library = OpenLibrary(name);
  if (library == nullptr) {
    if (log != nullptr)
      log(kWarn, kInit, "probing", 0, "probing: %s=%s cannot be loaded: %s", kVariable, name, dlerror());
    return;
  }
  for (int each = version; each >= 5 && version_ == 0; --each) {
    v5_ = static_cast<const ProfilerV5*>(dlsym(library, each == 6 ? "ncclProfiler_v6" : "ncclProfiler_v5"));
    if (v5_ != nullptr) version_ = each;
  }
  if (version_ == 0) {
    v4_ = static_cast<const ProfilerV4*>(dlsym(library, "ncclProfiler_v4"));
    if (v4_ != nullptr) version_ = 4;
  }
  if (version_ == 0) {
    if (log != nullptr)
      log(kWarn, kInit, "probing", 0, "probing: %s=%s has no ncclProfiler_v4 to _v%d", kVariable, name,
          version);
    dlclose(library);
    return;
  }
  is_loaded.store(true, std::memory_order_release);
}

int NextPlugin::Init(const Communicator& communicator, Context& context) {
  if (version_ == 0) return 0;
  int mask = 0;
  const int failed =
      version_ == 4 ? v4_->init(&context.next, &mask, communicator.name, communicator.hash,
                                communicator.nodes, communicator.ranks, communicator.rank, communicator.log)
                    : v5_->init(&context.next, communicator.hash, &mask, communicator.name,
                                communicator.nodes, communicator.ranks, communicator.rank, communicator.log);
  if (failed != kSuccess) return 0;
  const std::uint64_t known = version_ == 4 ? 2 * kLastOfV4 - 1 : version_ == 5 ? 2 * kLastOfV5 - 1 : ~0ULL;
  context.next_mask = WithParents(static_cast<unsigned>(mask)) & known;
  return mask;
}

void NextPlugin::Finalize(Context& context) {
  if (version_ == 0 || context.next == nullptr) return;
  version_ == 4 ? v4_->finalize(context.next) : v5_->finalize(context.next);
}

void* NextPlugin::Start(const Context& context, const Descriptor& descriptor, std::size_t size) {
  Descriptor copy{};
  std::memcpy(&copy, &descriptor, size);
  // Of an operation that another process started, `parent` is that process's.
  const bool is_foreign = copy.type == kProxyOp && copy.proxy_op.pid != getpid();
  if (!is_foreign) copy.parent = Translated(copy.parent);
  if (size > kSizeOfV4 && (copy.type == kColl || copy.type == kP2p)) {
    void*& group = copy.type == kColl ? copy.coll.parent_group : copy.p2p.parent_group;
    group = Translated(group);
    if (version_ == 4) copy.parent = group;
  }
  void* handle = nullptr;
  version_ == 4 ? v4_->start(context.next, &handle, &copy) : v5_->start(context.next, &handle, &copy);
  return handle;
}

void NextPlugin::Stop(void* handle) { version_ == 4 ? v4_->stop(handle) : v5_->stop(handle); }

void NextPlugin::Record(void* handle, int state, StateArgs* args) {
  version_ == 4 ? v4_->record(handle, state, args) : v5_->record(handle, state, args);
}

}  // namespace probing::nccl
