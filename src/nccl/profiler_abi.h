// The binary interface between NCCL and a profiler plugin, versions 4 to 6, as in NCCL's headers
// src/include/plugin/profiler/profiler_v{4,5,6}.h (NCCL 2.26 to 2.30). Layouts are checked below: NCCL is
// built without us.
//
// A version changes little: a descriptor of v5 begins like one of v4 and adds kinds of events, v6 adds those
// of the copy engine. So an older plugin can read the descriptors of a newer NCCL, for events it knows.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace probing::nccl {

inline constexpr int kSuccess = 0;  // ncclSuccess: the only thing a plugin ever answers

enum EventType : std::uint64_t {
  kGroup = 1 << 0,
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyCtrl = 1 << 5,
  kKernelCh = 1 << 6,
  kNetPlugin = 1 << 7,
  kLastOfV4 = kNetPlugin,
  kGroupApi = 1 << 8,  // since v5
  kCollApi = 1 << 9,
  kP2pApi = 1 << 10,
  kKernelLaunch = 1 << 11,
  kLastOfV5 = kKernelLaunch,
  kCeColl = 1 << 12,  // since v6
  kCeSync = 1 << 13,
  kCeBatch = 1 << 14,
};

enum EventState : int {
  kStepSendGpuWait = 8,
  kStepSendWait = 9,
  kStepRecvWait = 10,
  kStepRecvFlushWait = 11,
  kStepRecvGpuWait = 12,
  kOpInProgress = 19,
  kStepSendPeerWait = 20,
  kNetPluginUpdate = 21,
  kKernelChStop = 22,
};

struct Descriptor {
  std::uint64_t type;  // v4: one byte, then padding
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t seq;
      const char* func;
      const void* send_buffer;
      void* recv_buffer;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
      void* parent_group;  // since v5: what `parent` is in v4
    } coll;
    struct {
      const char* func;
      void* buffer;
      const char* datatype;
      std::size_t count;
      int peer;
      std::uint8_t channels;
      void* parent_group;  // since v5
    } p2p;
    struct {
      pid_t pid;  // whose address space `parent` is of
      std::uint8_t channel;
      int peer;
      int steps;
      int chunk_size;
      int is_send;
    } proxy_op;
    struct {
      int step;
    } proxy_step;
    struct {
      std::uint8_t channel;
      std::uint64_t gpu_time;
    } kernel_ch;
    struct {
      std::int64_t id;
      void* data;
    } net_plugin;
    struct {  // since v6
      std::uint64_t seq;
      const char* func;
      const void* send_buffer;
      void* recv_buffer;
      std::size_t count;
      int root;
      const char* datatype;
      const char* sync_strategy;
      bool intra_batch_sync;
      std::uint32_t batch_size;
      std::uint32_t batches;
      std::uint32_t ce_seq;
      void* stream;
    } ce_coll;
  };
};

union StateArgs {
  struct {
    std::size_t size;
  } proxy_step;
  struct {
    int appended;
  } proxy_ctrl;
  struct {
    void* data;
  } net_plugin;
  struct {
    std::uint64_t gpu_time;
  } kernel_ch;
};

// ncclDebugLogger_t: level, flags, file, line, format, …
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, std::uint64_t comm_hash, int nodes, int ranks,
              int rank, Logger log);
  int (*start)(void* context, void** handle, Descriptor* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, StateArgs* args);
  int (*finalize)(void* context);
};

// v5 and v6.
struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int ranks,
              int rank, Logger log);
  int (*start)(void* context, void** handle, Descriptor* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, StateArgs* args);
  int (*finalize)(void* context);
};

static_assert(sizeof(void*) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && offsetof(Descriptor, coll.count) == 24 + 32);
static_assert(offsetof(Descriptor, coll.root) == 24 + 40 && offsetof(Descriptor, coll.datatype) == 24 + 48);
static_assert(offsetof(Descriptor, coll.channels) == 24 + 56 &&
              offsetof(Descriptor, coll.algorithm) == 24 + 64);
static_assert(offsetof(Descriptor, coll.protocol) == 24 + 72 &&
              offsetof(Descriptor, coll.parent_group) == 24 + 80);
static_assert(offsetof(Descriptor, p2p.count) == 24 + 24 && offsetof(Descriptor, p2p.peer) == 24 + 32);
static_assert(offsetof(Descriptor, p2p.channels) == 24 + 36 &&
              offsetof(Descriptor, p2p.parent_group) == 24 + 40);
static_assert(offsetof(Descriptor, proxy_op.channel) == 24 + 4 &&
              offsetof(Descriptor, proxy_op.peer) == 24 + 8);
static_assert(offsetof(Descriptor, proxy_op.chunk_size) == 24 + 16);
static_assert(offsetof(Descriptor, proxy_op.is_send) == 24 + 20);
static_assert(offsetof(Descriptor, kernel_ch.gpu_time) == 24 + 8);
static_assert(offsetof(Descriptor, ce_coll.sync_strategy) == 24 + 56);
static_assert(offsetof(Descriptor, ce_coll.stream) == 24 + 80);
// v4's own ends at 104, v5's and v6's at 112: a descriptor of NCCL is read to the end of its kind and no
// further.
static_assert(sizeof(Descriptor) == 112 && sizeof(StateArgs) == 8);
static_assert(sizeof(ProfilerV4) == 48 && sizeof(ProfilerV5) == 48);

}  // namespace probing::nccl
