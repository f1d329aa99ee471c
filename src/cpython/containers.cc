#include "cpython/containers.h"

#include <algorithm>
#include <numeric>

#include "cpython/block.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

// Entries of a table, empty and deleted ones included, that are looked at for a few items.
constexpr std::size_t kMaxScanned = 256;
constexpr std::size_t kMaxSlots = 1 << 16;  // of a set, for many items
constexpr std::uint32_t kWord = 8;
constexpr std::size_t kMaxOrdered = 4096;    // entries of an OrderedDict among which the first ones are found
constexpr std::uint32_t kOrderedFirst = 32;  // PyODictObject: a dict, the first node, the last one…
constexpr std::int64_t kDequeBlockItems = 64;

Result<std::vector<std::uint64_t>> ReadWords(const Memory& memory, RemoteAddress from, std::uint64_t count) {
  std::vector<std::uint64_t> words(count);
  RETURN_IF_ERROR(memory.Read(from, std::as_writable_bytes(std::span(words))));
  return words;
}

Result<Items> ReadArray(const Memory& memory, RemoteAddress array, std::int64_t size, std::size_t max_items) {
  if (size < 0) return Error{Code::kFailed, "a container in the target has a negative size", ""};
  Items items;
  items.total = static_cast<std::uint64_t>(size);
  ASSIGN_OR_RETURN(const auto words,
                   ReadWords(memory, array, std::min<std::uint64_t>(items.total, max_items)));
  for (const std::uint64_t word : words) items.items.push_back({word});
  return items;
}

}  // namespace

Result<DictKeys> ReadDictKeys(const Memory& memory, const ObjectLayout& layout, RemoteAddress at) {
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, at, 40));
  DictKeys keys;
  if (layout.dict_keys_have_kind) {
    const auto log2_index_bytes = head.Get<std::uint8_t>(9);
    if (log2_index_bytes >= 48) return Error{Code::kFailed, "not a dict", ""};
    keys.entries = at + 32 + (std::uint64_t{1} << log2_index_bytes);
    keys.count = head.Get<std::uint64_t>(24);
    keys.usable = head.Get<std::uint64_t>(16);
    if (head.Get<std::uint8_t>(10) != 0) keys.words_per_entry = 2;  // all are str: no hash
    return keys;
  }
  const auto size = head.Get<std::uint64_t>(8);
  keys.usable = head.Get<std::uint64_t>(24);
  if (layout.dict_is_hash_table) {  // references, size, function, usable; then the entries
    keys.entries = at + 32;
    keys.count = size;
    return keys;
  }
  const std::uint64_t index_bytes = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
  keys.entries = at + 40 + size * index_bytes;
  keys.count = head.Get<std::uint64_t>(32);
  return keys;
}

Result<Items> ReadTuple(const Memory& memory, const ObjectLayout& layout, RemoteAddress tuple,
                        std::size_t max_items) {
  ASSIGN_OR_RETURN(const auto size, memory.ReadValue((tuple + layout.value).As<std::int64_t>()));
  return ReadArray(memory, tuple + layout.tuple_items, size, max_items);
}

Result<Items> ReadList(const Memory& memory, const ObjectLayout& layout, RemoteAddress list,
                       std::size_t max_items) {
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, list + layout.value, 2 * kWord));
  return ReadArray(memory, head.GetPointer(kWord), head.Get<std::int64_t>(0), max_items);
}

// What Python 3.4 leaves where an item of a set was: an object of a type of its own, with the item's hash.
bool IsDummy(const Memory& memory, const ObjectLayout& layout, RemoteAddress item) {
  const auto type = memory.ReadValue((item + layout.type).As<RemoteAddress>());
  if (!type.ok()) return false;
  const auto name = memory.ReadValue((*type + layout.type_name).As<RemoteAddress>());
  if (!name.ok()) return false;
  constexpr std::string_view kDummy = "<dummy key> type";
  const auto text = memory.ReadCString(*name, kDummy.size());
  return text.ok() && *text == kDummy;
}

Result<Items> ReadSet(const Memory& memory, const ObjectLayout& layout, RemoteAddress set,
                      std::size_t max_items) {
  // fill, used, mask, table of {key, hash}
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, set + layout.value, 4 * kWord));
  const std::size_t limit = std::clamp(4 * max_items, kMaxScanned, kMaxSlots);
  const auto slots = std::min<std::uint64_t>(head.Get<std::uint64_t>(2 * kWord), limit - 1) + 1;
  ASSIGN_OR_RETURN(const auto words, ReadWords(memory, head.GetPointer(3 * kWord), slots * 2));
  Items items;
  items.total = head.Get<std::uint64_t>(kWord);
  const bool may_have_dummies = layout.dict_is_hash_table && head.Get<std::uint64_t>(0) != items.total;
  for (std::size_t i = 0; i + 1 < words.size() && items.items.size() < max_items; i += 2) {
    const bool is_deleted = words[i + 1] == UINT64_MAX;  // the hash no object has
    if (words[i] == 0 || is_deleted) continue;
    if (may_have_dummies && IsDummy(memory, layout, {words[i]})) continue;
    items.items.push_back({words[i]});
  }
  return items;
}

Result<DictItems> ReadDict(const Memory& memory, const ObjectLayout& layout, RemoteAddress dict,
                           std::size_t max_items) {
  // used, version (since 3.6), keys, values
  const std::uint32_t keys_at = (layout.dict_is_hash_table ? 1 : 2) * kWord;
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, dict + layout.value, keys_at + 2 * kWord));
  const auto total = head.Get<std::uint64_t>(0);
  if (total == 0) return DictItems{};
  ASSIGN_OR_RETURN(DictItems result, ReadItems(memory, layout, head.GetPointer(keys_at),
                                               head.GetPointer(keys_at + kWord), max_items));
  result.total = total;
  return result;
}

Result<DictItems> ReadOrderedDict(const Memory& memory, const ObjectLayout& layout, RemoteAddress dict,
                                  std::size_t max_items) {
  ASSIGN_OR_RETURN(DictItems all, ReadDict(memory, layout, dict, kMaxOrdered));
  DictItems ordered;
  ordered.total = all.total;
  // A list of nodes {key, hash, next, previous}. A subclass in Python may leave it empty.
  ASSIGN_OR_RETURN(auto node, memory.ReadValue((dict + layout.value + kOrderedFirst).As<RemoteAddress>()));
  while (node && ordered.items.size() < max_items) {
    ASSIGN_OR_RETURN(const Block fields, Block::Read(memory, node, 3 * kWord));
    const RemoteAddress key = fields.GetPointer(0);
    const auto found = std::find_if(all.items.begin(), all.items.end(),
                                    [key](const auto& item) { return item.first == key; });
    if (found == all.items.end()) break;
    ordered.items.push_back(*found);
    node = fields.GetPointer(2 * kWord);
  }
  if (ordered.items.size() >= std::min<std::uint64_t>(max_items, all.total)) return ordered;
  if (all.items.size() > max_items) all.items.resize(max_items);  // by age, then
  return all;
}

Result<Deque> ReadDeque(const Memory& memory, const ObjectLayout& layout, RemoteAddress at,
                        std::size_t max_items) {
  // size, leftmost block, rightmost block, index in the leftmost, in the rightmost, state, maxlen
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, at + layout.value, 7 * kWord));
  const auto size = head.Get<std::int64_t>(0);
  auto index = head.Get<std::int64_t>(3 * kWord);
  if (size < 0 || index < 0 || index > kDequeBlockItems)
    return Error{Code::kFailed, "not a deque, or it changed", ""};
  Deque deque;
  deque.items.total = static_cast<std::uint64_t>(size);
  deque.max_length = head.Get<std::int64_t>(6 * kWord);
  // A block: the one before, 64 items, the next one.
  RemoteAddress block = head.GetPointer(kWord);
  auto left = static_cast<std::int64_t>(std::min<std::uint64_t>(deque.items.total, max_items));
  while (left > 0) {
    const std::int64_t here = std::min(left, kDequeBlockItems - index);
    ASSIGN_OR_RETURN(const auto words,
                     ReadWords(memory, block + kWord * static_cast<std::uint64_t>(1 + index),
                               static_cast<std::uint64_t>(here)));
    for (const std::uint64_t word : words) deque.items.items.push_back({word});
    left -= here;
    index = 0;
    if (left == 0) break;
    ASSIGN_OR_RETURN(block, memory.ReadValue((block + kWord * (1 + kDequeBlockItems)).As<RemoteAddress>()));
  }
  return deque;
}

namespace {

// In which order `count` entries were added. Since 3.13 a class knows the names of its attributes before they
// are set, in any order, and the values say in which they were: capacity, size, two flags, values, then a
// byte for each.
std::vector<std::size_t> ReadOrder(const Memory& memory, const ObjectLayout& layout, RemoteAddress values,
                                   std::uint64_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!values || layout.dict_values == 0) return order;
  const auto head = Block::Read(memory, values, kWord);
  if (!head.ok()) return order;
  const auto capacity = head->Get<std::uint8_t>(0);
  const auto size = head->Get<std::uint8_t>(1);
  if (size > capacity || size > count) return order;
  const auto bytes = Block::Read(memory, values + layout.dict_values + kWord * capacity, size);
  if (!bytes.ok()) return order;
  std::vector<std::size_t> added;
  for (std::uint32_t i = 0; i < size; ++i) added.push_back(bytes->Get<std::uint8_t>(i));
  const bool is_right = std::all_of(added.begin(), added.end(), [&](std::size_t at) { return at < count; });
  return is_right ? added : order;
}

}  // namespace

Result<DictItems> ReadItems(const Memory& memory, const ObjectLayout& layout, RemoteAddress keys_at,
                            RemoteAddress values_at, std::size_t max_items) {
  ASSIGN_OR_RETURN(const DictKeys keys, ReadDictKeys(memory, layout, keys_at));
  // A hash table is never more than two thirds full, and up to four times larger after it has grown.
  const std::size_t wanted = layout.dict_is_hash_table ? 6 * max_items : max_items;
  const std::uint64_t count = std::min<std::uint64_t>(keys.count, std::max(kMaxScanned, wanted));
  ASSIGN_OR_RETURN(const auto words, ReadWords(memory, keys.entries, count * keys.words_per_entry));
  std::vector<std::uint64_t> values;  // of a dict that shares its keys
  if (values_at) {
    ASSIGN_OR_RETURN(values, ReadWords(memory, values_at + layout.dict_values, count));
  }
  DictItems result;
  const std::vector<std::size_t> order = ReadOrder(memory, layout, values_at, count);
  for (std::size_t n = 0; n < order.size() && result.items.size() < max_items; ++n) {
    const std::size_t i = order[n];
    const std::size_t end = (i + 1) * keys.words_per_entry;
    const std::uint64_t key = words[end - 2];
    const std::uint64_t value = values.empty() ? words[end - 1] : values[i];
    if (key != 0 && value != 0) result.items.push_back({{key}, {value}});
  }
  result.total = result.items.size();
  return result;
}

}  // namespace probing::cpython
