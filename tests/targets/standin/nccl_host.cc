// Plays NCCL for a profiler plugin: nccl_host PLUGIN VERSION THREADS ROUNDS [late]
//
// Loads the plugin, as NCCL does by NCCL_PROFILER_PLUGIN, and calls it as NCCL calls version 4, 5 or 6: each
// thread is a communicator whose all_reduce is enqueued by one thread while a proxy thread does the network's
// part and the kernel's. The sequence is that of a ring over two nodes with two channels. The structs are
// written down here once more, from NCCL's headers, so that a mistake in the plugin's own does not agree with
// itself. Prints "ready", waits for a line on stdin, plays, prints a line of JSON, waits for a line,
// finalizes, prints "end". "late": parts begin after their operation was stopped, and one comes after
// everything was finalized.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace v4 {
typedef struct {
  uint8_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      uint8_t nChannels;
      uint8_t nWarps;
      const char* algo;
      const char* proto;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t nChannels;
    } p2p;
    struct {
      pid_t pid;
      uint8_t channelId;
      int peer;
      int nSteps;
      int chunkSize;
      int isSend;
    } proxyOp;
    struct {
      int step;
    } proxyStep;
    struct {
      uint8_t channelId;
      uint64_t pTimer;
    } kernelCh;
    struct {
      int64_t id;
      void* data;
    } netPlugin;
  };
} Descr;
static_assert(sizeof(Descr) == 104);
}  // namespace v4

namespace v6 {  // and v5: kinds of the copy engine apart, they are the same
typedef struct {
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      bool graphCaptured;
      int groupDepth;
    } groupApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graphCaptured;
    } collApi;
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      uint8_t nChannels;
      uint8_t nWarps;
      const char* algo;
      const char* proto;
      void* parentGroup;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t nChannels;
      void* parentGroup;
    } p2p;
    struct {
      pid_t pid;
      uint8_t channelId;
      int peer;
      int nSteps;
      int chunkSize;
      int isSend;
    } proxyOp;
    struct {
      int step;
    } proxyStep;
    struct {
      uint8_t channelId;
      uint64_t pTimer;
    } kernelCh;
    struct {
      int64_t id;
      void* data;
    } netPlugin;
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      const char* syncStrategy;
      bool intraBatchSync;
      uint32_t batchSize;
      uint32_t numBatches;
      uint32_t ceSeqNum;
      void* stream;
    } ceColl;
  };
} Descr;
static_assert(sizeof(Descr) == 112);
}  // namespace v6

union Args {
  struct {
    size_t transSize;
  } proxyStep;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
  struct {
    void* data;
  } netPlugin;
  struct {
    uint64_t pTimer;
  } kernelCh;
};
typedef void (*Log)(int, unsigned long, const char*, int, const char*, ...);
template <typename D>
struct Calls {
  int (*start)(void*, void**, D*);
  int (*stop)(void*);
  int (*record)(void*, int, Args*);
  int (*finalize)(void*);
};
struct Plugin4 {
  const char* name;
  int (*init)(void**, int*, const char*, uint64_t, int, int, int, Log);
  Calls<v4::Descr> calls;
};
struct Plugin5 {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, Log);
  Calls<v6::Descr> calls;
};

enum {
  Group = 1,
  Coll = 2,
  P2p = 4,
  ProxyOp = 8,
  ProxyStep = 16,
  KernelCh = 64,
  GroupApi = 256,
  CollApi = 512,
  CeColl = 4096
};
int version, mask, rounds;
bool late;
std::atomic<long> started{0}, with_handle{0};

template <typename D>
void* Start(const Calls<D>& calls, void* context, D& descr) {
  void* handle = reinterpret_cast<void*>(0xdead0000);
  // NCCL asks its mask; parents of what is asked for are started, too.
  if ((mask & descr.type) == 0 && (descr.type & (Group | GroupApi | CollApi)) == 0) return nullptr;
  if (mask == 0) return nullptr;
  calls.start(context, &handle, &descr);
  ++started;
  with_handle += handle != nullptr;
  return handle;
}

template <typename D>
void Proxy(const Calls<D>& calls, void* context, void* coll, int round) {
  void* kernels[2];
  for (int channel = 0; channel < 2; ++channel) {
    D kernel{};
    kernel.type = KernelCh, kernel.parentObj = coll;
    kernel.kernelCh.channelId = channel, kernel.kernelCh.pTimer = 1000000 + round * 10000 + channel;
    kernels[channel] = Start(calls, context, kernel);
  }
  for (int channel = 0; channel < 2; ++channel) {
    for (int send = 0; send < 2; ++send) {
      D op{};
      op.type = ProxyOp, op.parentObj = coll;
      op.proxyOp.pid = getpid(), op.proxyOp.channelId = channel, op.proxyOp.peer = send ? 1 : 3;
      op.proxyOp.nSteps = 4, op.proxyOp.chunkSize = 524288, op.proxyOp.isSend = send;
      void* handle = Start(calls, context, op);
      if (handle) calls.record(handle, 19, nullptr);
      for (int step = 0; step < 4; ++step) {
        D each{};
        each.type = ProxyStep, each.parentObj = handle;
        each.proxyStep.step = step;
        void* of_step = handle ? Start(calls, context, each) : nullptr;
        if (!of_step) continue;
        Args args{};
        args.proxyStep.transSize = 524288;
        for (int state : send ? std::vector<int>{8, 20, 9} : std::vector<int>{10, 11, 12}) {
          calls.record(of_step, state, &args);
          if (round == 0 && state == (send ? 20 : 10)) usleep(2000);  // for the peer, and for the network
        }
        calls.stop(of_step);
      }
      if (handle) calls.stop(handle);
    }
  }
  for (int channel = 0; channel < 2; ++channel) {
    Args args{};
    args.kernelCh.pTimer = 1000000 + round * 10000 + 5000 + channel;
    if (!kernels[channel]) continue;
    calls.record(kernels[channel], 22, &args);
    calls.stop(kernels[channel]);
  }
}

template <typename D>
void SetParents(D& coll, void* group, void* api);
template <>
void SetParents(v4::Descr& coll, void* group, void*) {
  coll.parentObj = group;
}
template <>
void SetParents(v6::Descr& coll, void* group, void* api) {
  coll.parentObj = api, coll.coll.parentGroup = group;
}

template <typename D>
void AllReduce(const Calls<D>& calls, void* context, int round, std::string& scratch) {
  D group{}, api{}, coll{};
  void* of_api = nullptr;
  if (version > 4) api.type = static_cast<decltype(api.type)>(CollApi), of_api = Start(calls, context, api);
  group.type = Group;
  void* of_group = Start(calls, context, group);
  coll.type = Coll;
  scratch = "AllReduce";  // NCCL promises nothing about how long its texts live
  coll.coll.seqNumber = round, coll.coll.func = scratch.c_str(), coll.coll.count = 1048576,
  coll.coll.datatype = "ncclFloat32";
  coll.coll.nChannels = 2, coll.coll.nWarps = 16, coll.coll.algo = "RING", coll.coll.proto = "SIMPLE";
  SetParents(coll, of_group, of_api);
  void* of_coll = Start(calls, context, coll);
  scratch.assign(scratch.size(), '?');
  const auto stop = [&] {
    if (of_coll) calls.stop(of_coll);
    if (of_group) calls.stop(of_group);
    if (of_api) calls.stop(of_api);
  };
  if (late) stop();
  std::thread proxy([&] { Proxy(calls, context, of_coll, round); });
  if (!late) stop();
  proxy.join();
}

void CopyEngine(const Calls<v6::Descr>& calls, void* context) {
  v6::Descr coll{};
  coll.type = CeColl;
  coll.ceColl.seqNumber = 7, coll.ceColl.func = "AllGather", coll.ceColl.count = 64,
  coll.ceColl.datatype = "ncclInt8";
  if (void* handle = Start(calls, context, coll)) calls.stop(handle);
}
void CopyEngine(const Calls<v4::Descr>&, void*) {}

template <typename D>
void SendRecv(const Calls<D>& calls, void* context) {
  D p2p{};
  p2p.type = P2p;
  p2p.p2p.func = "Send", p2p.p2p.count = 17, p2p.p2p.peer = 3, p2p.p2p.datatype = "ncclInt8",
  p2p.p2p.nChannels = 1;
  if (void* handle = Start(calls, context, p2p)) calls.stop(handle);
}

template <typename D>
void Run(const Calls<D>& calls, std::vector<void*>& contexts) {
  std::vector<std::thread> threads;
  for (void* context : contexts) {
    threads.emplace_back([&calls, context] {
      std::string scratch;
      for (int round = 0; round < rounds; ++round) AllReduce(calls, context, round, scratch);
      if (version == 6) CopyEngine(calls, context);
      SendRecv(calls, context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"mask\": %d, \"started\": %ld, \"handles\": %ld}\n", mask, started.load(),
              with_handle.load());
  std::fflush(stdout);
  (void)!getchar();
  D left{};  // one that nobody stops
  left.type = Coll;
  void* handle = Start(calls, contexts[0], left);
  for (void* context : contexts) {
    if (context != nullptr) calls.finalize(context);
  }
  if (late && handle != nullptr) {
    calls.record(handle, 19, nullptr);
    calls.stop(handle);
  }
}

int main(int, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  version = atoi(argv[2]);
  rounds = atoi(argv[4]);
  late = argv[5] != nullptr;
  void* plugin = dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
  if (plugin == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  std::puts("ready");
  std::fflush(stdout);
  (void)!getchar();
  std::vector<void*> contexts(atoi(argv[3]));
  const int count = static_cast<int>(contexts.size());
  for (int i = 0; i < count; ++i) {
    int failed = 0;
    const uint64_t hash = 0x2f4a8c1d9e07b355 + i;
    if (version == 4)
      failed = static_cast<Plugin4*>(plugin)->init(&contexts[i], &mask, "dp", hash, 2, 4, 1, nullptr);
    else
      failed = static_cast<Plugin5*>(plugin)->init(&contexts[i], hash, &mask, "dp", 2, 4, 1, nullptr);
    if (failed != 0) return 1;
  }
  if (version == 4)
    Run(static_cast<Plugin4*>(plugin)->calls, contexts);
  else
    Run(static_cast<Plugin5*>(plugin)->calls, contexts);
  dlclose(library);  // as NCCL does after the last communicator
  std::puts("end");
  return 0;
}
