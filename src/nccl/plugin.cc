// libprobing-nccl.so: what NCCL calls. Every function is a barrier: nothing throws, prints or fails, and but
// for init and finalize nothing locks or allocates.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "nccl/context.h"
#include "nccl/events.h"
#include "nccl/next_plugin.h"
#include "nccl/profiler_abi.h"
#include "nccl/rows.h"

namespace probing::nccl {
namespace {

constexpr std::uint64_t kOurs = kColl | kP2p | kProxyOp | kProxyStep | kKernelCh | kCeColl;
constexpr std::size_t kMaxContexts = 512;

constinit Context contexts[kMaxContexts];

template <std::size_t N>
void Copy(std::array<char, N>& to, const char* from) {
  const std::size_t size = from == nullptr ? 0 : strnlen(from, N - 1);
  if (size > 0) std::memcpy(to.data(), from, size);
  to[size] = 0;
}

template <typename T>
void RaiseTo(std::atomic<T>& to, T value) {
  T old = to.load(std::memory_order_relaxed);
  while (old < value && !to.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

void LowerTo(std::atomic<std::uint64_t>& to, std::uint64_t value) {  // 0 is none
  std::uint64_t old = to.load(std::memory_order_relaxed);
  while ((old == 0 || old > value) && !to.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

// ── ends ──

void FinishOperation(Event& event) {
  if (event.context->is_recorded) WriteOperation(event);
  Free(event);
}

// Its last channel is over, and so is the call: no parts are awaited. Without channels (the copy engine) the
// call is all there is.
When WhenToFinish(const Event& operation) {
  const bool is_over = operation.stopped_ns.load(std::memory_order_relaxed) != 0 &&
                       operation.channels_done.load(std::memory_order_relaxed) >= operation.channels;
  return is_over ? When::kNow : When::kLater;
}

void LetGoOfOperation(Event& operation, std::int64_t now_ns) {
  RaiseTo(operation.ended_ns, now_ns);
  if (LetGo(operation, WhenToFinish(operation))) FinishOperation(operation);
}

// The parent of a part, which Begin() has made hold it: the caller gives that reference back.
Event* HeldParent(const Event& event) {
  Event* parent = Hold(event.parent);
  if (parent != nullptr) (void)LetGo(*parent, When::kLater);  // never the last
  return parent;
}

void LetGoOfProxyOp(Event& event) {
  if (!LetGo(event, When::kNow)) return;
  Event* operation = HeldParent(event);
  if (event.context->is_recorded) WriteNetwork(event, operation);
  if (operation != nullptr) LetGoOfOperation(*operation, event.ended_ns.load());
  Free(event);
}

// ── beginnings ──

// The oldest of the latest makes room.
void Await(Context& context, Handle handle) {
  const std::uint32_t slot = context.operations.fetch_add(1, std::memory_order_relaxed) % Context::kAwaited;
  Event* old = nullptr;
  if (LetGoOfOld(context.latest[slot].exchange(handle, std::memory_order_acq_rel), old))
    FinishOperation(*old);
}

void BeginCollective(Event& event, const Descriptor& descriptor) {
  event.kind = Event::Kind::kOperation;
  event.seq = static_cast<std::int64_t>(descriptor.coll.seq);
  event.count = static_cast<std::int64_t>(descriptor.coll.count);
  event.root = descriptor.coll.root;
  Copy(event.op, descriptor.coll.func);
  Copy(event.datatype, descriptor.coll.datatype);
  if (descriptor.type == kCeColl) {
    Copy(event.algorithm, "CE");
    return;
  }
  event.channels = descriptor.coll.channels;
  Copy(event.algorithm, descriptor.coll.algorithm);
  Copy(event.protocol, descriptor.coll.protocol);
}

void BeginP2p(Event& event, const Descriptor& descriptor) {
  event.kind = Event::Kind::kOperation;
  event.is_p2p = true;
  event.count = static_cast<std::int64_t>(descriptor.p2p.count);
  event.peer = descriptor.p2p.peer;
  event.channels = descriptor.p2p.channels;
  Copy(event.op, descriptor.p2p.func);
  Copy(event.datatype, descriptor.p2p.datatype);
}

void BeginProxyOp(Event& event, const Descriptor& descriptor) {
  event.kind = Event::Kind::kProxyOp;
  event.is_send = descriptor.proxy_op.is_send != 0;
  event.channels = descriptor.proxy_op.channel;
  event.peer = descriptor.proxy_op.peer;
  event.steps = descriptor.proxy_op.steps;
  // It may be done for another process, whose handles say nothing here.
  event.parent = descriptor.proxy_op.pid == getpid() ? reinterpret_cast<Handle>(descriptor.parent) : 0;
}

void Begin(Event& event, Context& context, const Descriptor& descriptor, Handle handle) {
  event.context = &context;
  event.started_ns = MonotonicNs();
  if (descriptor.type == kColl || descriptor.type == kCeColl) BeginCollective(event, descriptor);
  if (descriptor.type == kP2p) BeginP2p(event, descriptor);
  if (descriptor.type == kProxyOp) BeginProxyOp(event, descriptor);
  if (descriptor.type == kProxyStep || descriptor.type == kKernelCh) {
    event.kind = descriptor.type == kProxyStep ? Event::Kind::kProxyStep : Event::Kind::kKernelCh;
    event.parent = reinterpret_cast<Handle>(descriptor.parent);
    if (descriptor.type == kKernelCh) event.gpu_from.store(descriptor.kernel_ch.gpu_time);
  }
  if (event.kind == Event::Kind::kOperation || event.kind == Event::Kind::kProxyOp)
    event.started_wall_ns = WallNs();
  if (event.kind == Event::Kind::kOperation) Await(context, handle);
  // Held until this part is over; one that comes too late has no parent.
  if (event.parent != 0 && Hold(event.parent) == nullptr) event.parent = 0;
}

// ── parts ──

int WaitOf(int state) {  // 0 for the GPU, 1 for the peer, 2 for the network
  switch (state) {
    case kStepSendGpuWait:
    case kStepRecvGpuWait:
    case kStepRecvFlushWait:
      return 0;
    case kStepSendPeerWait:
      return 1;
    case kStepSendWait:
    case kStepRecvWait:
      return 2;
    default:
      return -1;
  }
}

void ChangeStep(Event& step, int state, const StateArgs* args, std::int64_t now_ns) {
  if (const int wait = WaitOf(step.step_state); wait >= 0)
    step.waited_ns[wait] += now_ns - step.state_since_ns;
  step.step_state = state;
  step.state_since_ns = now_ns;
  // Told with the state in which it is known.
  if (args != nullptr && (state == kStepSendWait || state == kStepRecvFlushWait || state == kStepRecvGpuWait))
    step.bytes = static_cast<std::int64_t>(args->proxy_step.size);
}

void EndStep(Event& step, std::int64_t now_ns) {
  ChangeStep(step, 0, nullptr, now_ns);
  Event* op = HeldParent(step);
  if (op != nullptr && op->kind == Event::Kind::kProxyOp) {
    op->sum_bytes.fetch_add(step.bytes, std::memory_order_relaxed);
    for (int i = 0; i < 3; ++i) op->sum_waited_ns[i].fetch_add(step.waited_ns[i], std::memory_order_relaxed);
    LetGoOfProxyOp(*op);
  }
  Free(step);
}

void EndChannel(Event& channel, std::int64_t now_ns) {
  Event* operation = HeldParent(channel);
  if (operation != nullptr && operation->kind == Event::Kind::kOperation) {
    LowerTo(operation->gpu_from, channel.gpu_from.load());
    RaiseTo(operation->gpu_to, channel.gpu_to.load());
    operation->channels_done.fetch_add(1, std::memory_order_relaxed);
    LetGoOfOperation(*operation, now_ns);
  }
  Free(channel);
}

// ── the interface ──

int Start(std::size_t size, void* opaque, void** handle, const Descriptor* given) {
  if (handle == nullptr) return kSuccess;
  *handle = nullptr;
  auto* context = static_cast<Context*>(opaque);
  if (context == nullptr || given == nullptr) return kSuccess;
  Descriptor descriptor{};
  std::memcpy(&descriptor, given, size);
  if (size < sizeof(Descriptor)) descriptor.type &= 0xff;  // the rest is padding
  NextPlugin* next = (context->next_mask & descriptor.type) != 0 ? NextPlugin::Loaded() : nullptr;
  const bool is_ours = context->is_recorded && (kOurs & descriptor.type) != 0;
  if (!is_ours && next == nullptr) return kSuccess;
  Handle own = 0;
  Event* event = NewEvent(own);
  void* of_next = next == nullptr ? nullptr : next->Start(*context, descriptor, size);
  if (event == nullptr) {
    // Without room here the other plugin still gets its own.
    if ((reinterpret_cast<Handle>(of_next) & 1) == 0) *handle = of_next;
    return kSuccess;
  }
  event->next_handle.store(of_next, std::memory_order_release);
  Begin(*event, *context, descriptor, own);
  *handle = reinterpret_cast<void*>(own);
  return kSuccess;
}

// The event of a handle that NCCL has: it holds a reference until it stops it.
Event* EventOf(void* handle) {
  Event* event = Hold(reinterpret_cast<Handle>(handle));
  if (event != nullptr) (void)LetGo(*event, When::kLater);
  return event;
}

bool IsOfNext(void* handle) { return (reinterpret_cast<Handle>(handle) & 1) == 0; }

int Stop(void* handle) {
  if (handle == nullptr) return kSuccess;
  NextPlugin* next = NextPlugin::Loaded();
  if (IsOfNext(handle)) {
    if (next != nullptr) next->Stop(handle);
    return kSuccess;
  }
  Event* event = EventOf(handle);
  if (event == nullptr) return kSuccess;
  void* const of_next = event->next_handle.load(std::memory_order_relaxed);
  if (next != nullptr && of_next != nullptr) next->Stop(of_next);
  const std::int64_t now_ns = MonotonicNs();
  switch (event->kind) {
    case Event::Kind::kOperation:
      event->stopped_ns.store(now_ns, std::memory_order_relaxed);
      LetGoOfOperation(*event, now_ns);
      break;
    case Event::Kind::kProxyOp:
      event->ended_ns.store(now_ns, std::memory_order_relaxed);
      LetGoOfProxyOp(*event);
      break;
    case Event::Kind::kProxyStep:
      if (LetGo(*event, When::kNow)) EndStep(*event, now_ns);
      break;
    case Event::Kind::kKernelCh:
      if (LetGo(*event, When::kNow)) EndChannel(*event, now_ns);
      break;
    case Event::Kind::kOther:
      if (LetGo(*event, When::kNow)) Free(*event);
      break;
  }
  return kSuccess;
}

int Record(void* handle, int state, StateArgs* args) {
  if (handle == nullptr) return kSuccess;
  NextPlugin* next = NextPlugin::Loaded();
  if (IsOfNext(handle)) {
    if (next != nullptr) next->Record(handle, state, args);
    return kSuccess;
  }
  Event* event = EventOf(handle);
  if (event == nullptr) return kSuccess;
  void* const of_next = event->next_handle.load(std::memory_order_relaxed);
  if (next != nullptr && of_next != nullptr) next->Record(of_next, state, args);
  if (event->kind == Event::Kind::kProxyStep) ChangeStep(*event, state, args, MonotonicNs());
  if (event->kind == Event::Kind::kKernelCh && state == kKernelChStop && args != nullptr)
    event->gpu_to.store(args->kernel_ch.gpu_time);
  return kSuccess;
}

int Init(int version, void** opaque, int* mask, const Communicator& communicator) {
  if (opaque == nullptr || mask == nullptr) return kSuccess;
  *opaque = nullptr;
  Context* context = NewContext();
  if (context == nullptr) return kSuccess;
  std::snprintf(context->hash.data(), context->hash.size(), "0x%" PRIx64, communicator.hash);
  Copy(context->name, communicator.name);
  context->rank = communicator.rank;
  context->ranks = communicator.ranks;
  context->is_recorded = OpenTables();
  const int next = NextPlugin::Get(version, communicator.log).Init(communicator, *context);
  const std::uint64_t known = version == 4 ? 2 * kLastOfV4 - 1 : version == 5 ? 2 * kLastOfV5 - 1 : ~0ULL;
  // NCCL has one mask for all communicators.
  *mask |= next | (context->is_recorded ? static_cast<int>(kOurs & known) : 0);
  *opaque = context;
  return kSuccess;
}

int Finalize(void* opaque) {
  auto* context = static_cast<Context*>(opaque);
  if (context == nullptr) return kSuccess;
  for (std::atomic<Handle>& each : context->latest) {
    Event* event = nullptr;
    if (LetGoOfOld(each.exchange(0), event)) FinishOperation(*event);
  }
  if (NextPlugin* next = NextPlugin::Loaded()) next->Finalize(*context);
  FreeContext(*context);
  return kSuccess;
}

constexpr std::size_t kSizeOfV4 = 104;

int InitV4(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks, int rank,
           Logger log) {
  return Init(4, context, mask, {name, hash, nodes, ranks, rank, log});
}
template <int kVersion>
int InitV5(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
           Logger log) {
  return Init(kVersion, context, mask, {name, hash, nodes, ranks, rank, log});
}
int StartV4(void* context, void** handle, Descriptor* descriptor) {
  return Start(kSizeOfV4, context, handle, descriptor);
}
int StartV5(void* context, void** handle, Descriptor* descriptor) {
  return Start(sizeof(Descriptor), context, handle, descriptor);
}

}  // namespace

Context* NewContext() {
  for (Context& context : contexts) {
    bool is_used = false;
    if (!context.is_used.compare_exchange_strong(is_used, true)) continue;
    context.next = nullptr;
    context.next_mask = 0;
    return &context;
  }
  return nullptr;
}

void FreeContext(Context& context) { context.is_used.store(false); }

}  // namespace probing::nccl

#define PROBING_NCCL_EXPORT extern "C" __attribute__((visibility("default"), used))
PROBING_NCCL_EXPORT const probing::nccl::ProfilerV4 ncclProfiler_v4 = {
    "probing",           probing::nccl::InitV4, probing::nccl::StartV4,
    probing::nccl::Stop, probing::nccl::Record, probing::nccl::Finalize,
};
PROBING_NCCL_EXPORT const probing::nccl::ProfilerV5 ncclProfiler_v5 = {
    "probing",           probing::nccl::InitV5<5>, probing::nccl::StartV5,
    probing::nccl::Stop, probing::nccl::Record,    probing::nccl::Finalize,
};
PROBING_NCCL_EXPORT const probing::nccl::ProfilerV5 ncclProfiler_v6 = {
    "probing",           probing::nccl::InitV5<6>, probing::nccl::StartV5,
    probing::nccl::Stop, probing::nccl::Record,    probing::nccl::Finalize,
};
