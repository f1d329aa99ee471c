#include "history/messages.h"

#include "query/packing.h"

namespace probing::history {

using query::Packer;
using query::Unpacker;

std::string Encode(const StateMessage& message) {
  Packer packer;
  packer.Put(message.directory).Put(message.host).Put(message.retention_days).Put(message.max_bytes);
  packer.Put(message.store).Put(message.spool).Put(message.spool_bytes).Put(message.store_interval_ms);
  packer.Put(message.interval_ms).Put(static_cast<std::uint64_t>(message.rings.size()));
  for (const RingEntry& ring : message.rings) {
    packer.Put(ring.pid).Put(ring.rank.has_value()).Put(ring.rank.value_or(0));
    packer.Put(ring.host).Put(ring.job).Put(ring.ended);
  }
  return packer.Take();
}

bool Decode(std::string_view payload, StateMessage& message) {
  Unpacker unpacker(payload);
  std::uint64_t count = 0;
  if (!unpacker.Get(message.directory) || !unpacker.Get(message.host) ||
      !unpacker.Get(message.retention_days) || !unpacker.Get(message.max_bytes) ||
      !unpacker.Get(message.store) || !unpacker.Get(message.spool) || !unpacker.Get(message.spool_bytes) ||
      !unpacker.Get(message.store_interval_ms) || !unpacker.Get(message.interval_ms) ||
      !unpacker.Get(count) || count > unpacker.rest().size()) {
    return false;
  }
  message.rings.resize(count);
  for (RingEntry& ring : message.rings) {
    bool has_rank = false;
    std::int64_t rank = 0;
    if (!unpacker.Get(ring.pid) || !unpacker.Get(has_rank) || !unpacker.Get(rank) ||
        !unpacker.Get(ring.host) || !unpacker.Get(ring.job) || !unpacker.Get(ring.ended)) {
      return false;
    }
    if (has_rank) ring.rank = rank;
  }
  return unpacker.done();
}

std::string Encode(const StatusMessage& message) {
  Packer packer;
  packer.Put(message.problem).Put(static_cast<std::uint64_t>(message.tables.size()));
  for (const TableStatus& table : message.tables)
    packer.Put(table.pid).Put(table.table).Put(table.rows).Put(table.files).Put(table.lost);
  packer.Put(message.store_problem).Put(static_cast<std::uint64_t>(message.store.size()));
  for (const StoreStatus& table : message.store) {
    packer.Put(table.table).Put(table.sent).Put(table.waiting).Put(table.dropped).Put(table.lost);
    packer.Put(table.problem);
  }
  return packer.Take();
}

bool Decode(std::string_view payload, StatusMessage& message) {
  Unpacker unpacker(payload);
  std::uint64_t count = 0;
  if (!unpacker.Get(message.problem) || !unpacker.Get(count) || count > unpacker.rest().size()) return false;
  message.tables.resize(count);
  for (TableStatus& table : message.tables) {
    if (!unpacker.Get(table.pid) || !unpacker.Get(table.table) || !unpacker.Get(table.rows) ||
        !unpacker.Get(table.files) || !unpacker.Get(table.lost)) {
      return false;
    }
  }
  if (!unpacker.Get(message.store_problem) || !unpacker.Get(count) || count > unpacker.rest().size())
    return false;
  message.store.resize(count);
  for (StoreStatus& table : message.store) {
    if (!unpacker.Get(table.table) || !unpacker.Get(table.sent) || !unpacker.Get(table.waiting) ||
        !unpacker.Get(table.dropped) || !unpacker.Get(table.lost) || !unpacker.Get(table.problem)) {
      return false;
    }
  }
  return unpacker.done();
}

}  // namespace probing::history
