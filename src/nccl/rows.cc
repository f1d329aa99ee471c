#include "nccl/rows.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "probing/probing.h"

namespace probing::nccl {
namespace {

// As src/table/nccl_tables.cc declares them: the probe refuses a table with other columns.
constexpr probing_column kCollectives[] = {
    {"communicator", PROBING_STRING}, {"comm_name", PROBING_STRING},  {"comm_rank", PROBING_INT64},
    {"comm_size", PROBING_INT64},     {"op", PROBING_STRING},         {"seq", PROBING_INT64},
    {"count", PROBING_INT64},         {"datatype", PROBING_STRING},   {"algorithm", PROBING_STRING},
    {"protocol", PROBING_STRING},     {"channels", PROBING_INT64},    {"root", PROBING_INT64},
    {"peer", PROBING_INT64},          {"started", PROBING_TIMESTAMP}, {"duration_ms", PROBING_DOUBLE},
    {"enqueue_ms", PROBING_DOUBLE},   {"gpu_ms", PROBING_DOUBLE},     {"is_complete", PROBING_BOOL},
    {"lost", PROBING_INT64},
};
constexpr probing_column kNetwork[] = {
    {"communicator", PROBING_STRING}, {"comm_rank", PROBING_INT64},    {"op", PROBING_STRING},
    {"seq", PROBING_INT64},           {"direction", PROBING_STRING},   {"peer", PROBING_INT64},
    {"channel", PROBING_INT64},       {"steps", PROBING_INT64},        {"bytes", PROBING_INT64},
    {"started", PROBING_TIMESTAMP},   {"duration_ms", PROBING_DOUBLE}, {"gpu_wait_ms", PROBING_DOUBLE},
    {"peer_wait_ms", PROBING_DOUBLE}, {"net_wait_ms", PROBING_DOUBLE}, {"lost", PROBING_INT64},
};
template <typename T, std::size_t N>
constexpr int CountOf(const T (&)[N]) {
  return static_cast<int>(N);
}

using Append = int (*)(probing_table*, const probing_value*, int);
std::atomic<Append> append{nullptr};
std::atomic<probing_table*> collectives{nullptr}, network{nullptr};

probing_value Null() { return {}; }
probing_value Int(std::int64_t number) { return {PROBING_INT64, {.integer = number}, 0}; }
probing_value Bool(bool value) { return {PROBING_BOOL, {.integer = value ? 1 : 0}, 0}; }
probing_value Time(std::int64_t ns) { return {PROBING_TIMESTAMP, {.integer = ns}, 0}; }
probing_value Ms(std::int64_t ns) { return {PROBING_DOUBLE, {.real = static_cast<double>(ns) / 1e6}, 0}; }
template <std::size_t N>
probing_value Text(const std::array<char, N>& text) {
  const std::size_t size = strnlen(text.data(), N);
  return size == 0 ? Null() : probing_value{PROBING_STRING, {.text = text.data()}, size};
}
probing_value Text(const char* text) { return {PROBING_STRING, {.text = text}, std::strlen(text)}; }

void Write(const std::atomic<probing_table*>& to, const probing_value* values, int count) {
  probing_table* table = to.load(std::memory_order_acquire);
  const Append function = append.load(std::memory_order_acquire);
  if (table != nullptr && function != nullptr) function(table, values, count);
}

}  // namespace

bool OpenTables() {
  // Finds the library however it came (inject, preload, import), and never loads it. It stays mapped once a
  // table is open, also after an eject.
  void* probe = dlopen("libprobing.so", RTLD_NOW | RTLD_NOLOAD);
  if (probe == nullptr) return false;
  const auto open = reinterpret_cast<decltype(&probing_open_table)>(dlsym(probe, "probing_open_table"));
  const auto add = reinterpret_cast<Append>(dlsym(probe, "probing_append"));
  const auto active = reinterpret_cast<decltype(&probing_active)>(dlsym(probe, "probing_active"));
  // A library that was left behind by an eject records nothing.
  const bool is_active = active != nullptr && active() != 0;
  if (is_active && open != nullptr && add != nullptr) {
    probing_table* first = open("nccl.collectives", kCollectives, CountOf(kCollectives));
    probing_table* second = open("nccl.network", kNetwork, CountOf(kNetwork));
    if (first != nullptr && second != nullptr) {
      collectives.store(first);
      network.store(second);
      append.store(add);
    }
  }
  dlclose(probe);
  return is_active && append.load() != nullptr;
}

void WriteOperation(const Event& event) {
  const Context& context = *event.context;
  const std::uint64_t gpu_from = event.gpu_from.load(), gpu_to = event.gpu_to.load();
  const std::int64_t ended_ns = event.ended_ns.load();
  const bool is_complete = event.channels_done.load() >= event.channels;
  const probing_value row[] = {
      Text(context.hash),
      Text(context.name),
      Int(context.rank),
      Int(context.ranks),
      Text(event.op),
      event.is_p2p ? Null() : Int(event.seq),
      Int(event.count),
      Text(event.datatype),
      Text(event.algorithm),
      Text(event.protocol),
      event.channels == 0 ? Null() : Int(event.channels),
      event.is_p2p ? Null() : Int(event.root),
      event.is_p2p ? Int(event.peer) : Null(),
      Time(event.started_wall_ns),
      Ms(ended_ns - event.started_ns),
      Ms(event.stopped_ns.load() - event.started_ns),
      gpu_from == 0 || gpu_to < gpu_from ? Null() : Ms(static_cast<std::int64_t>(gpu_to - gpu_from)),
      Bool(is_complete),
      Int(LostEvents()),
  };
  static_assert(CountOf(row) == CountOf(kCollectives));
  Write(collectives, row, CountOf(row));
}

void WriteNetwork(const Event& event, const Event* operation) {
  const Context& context = *event.context;
  const bool has_seq = operation != nullptr && !operation->is_p2p;
  const probing_value row[] = {
      Text(context.hash),
      Int(context.rank),
      operation == nullptr ? Null() : Text(operation->op),
      has_seq ? Int(operation->seq) : Null(),
      Text(event.is_send ? "send" : "recv"),
      Int(event.peer),
      Int(event.channels),
      Int(event.steps),
      Int(event.sum_bytes.load()),
      Time(event.started_wall_ns),
      Ms(event.ended_ns.load() - event.started_ns),
      Ms(event.sum_waited_ns[0].load()),
      Ms(event.sum_waited_ns[1].load()),
      Ms(event.sum_waited_ns[2].load()),
      Int(LostEvents()),
  };
  static_assert(CountOf(row) == CountOf(kNetwork));
  Write(network, row, CountOf(row));
}

}  // namespace probing::nccl
