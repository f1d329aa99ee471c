// What lists, tuples, dicts, sets and deques contain, as addresses of objects. All input is untrusted.
#pragma once

#include <utility>
#include <vector>

#include "cpython/object_layout.h"

namespace probing::cpython {

struct Items {
  std::vector<process::RemoteAddress> items;  // at most as many as asked for
  std::uint64_t total = 0;
};
Result<Items> ReadTuple(const process::Memory& memory, const ObjectLayout& layout,
                        process::RemoteAddress tuple, std::size_t max_items);
Result<Items> ReadList(const process::Memory& memory, const ObjectLayout& layout, process::RemoteAddress list,
                       std::size_t max_items);
// In the order of its table, which is also that of Python. A set that shrank much may look emptier
// than it is: only the first part of the table is looked at.
Result<Items> ReadSet(const process::Memory& memory, const ObjectLayout& layout, process::RemoteAddress set,
                      std::size_t max_items);

struct DictItems {
  std::vector<std::pair<process::RemoteAddress, process::RemoteAddress>> items;
  std::uint64_t total = 0;
};
// Oldest first, except in a `__dict__` since 3.11, which has the order of the class's other objects.
Result<DictItems> ReadDict(const process::Memory& memory, const ObjectLayout& layout,
                           process::RemoteAddress dict, std::size_t max_items);

// An OrderedDict, in its own order: move_to_end() changes that, and not the order of the dict below.
Result<DictItems> ReadOrderedDict(const process::Memory& memory, const ObjectLayout& layout,
                                  process::RemoteAddress dict, std::size_t max_items);

struct Deque {
  Items items;
  std::int64_t max_length = -1;  // -1: any
};
Result<Deque> ReadDeque(const process::Memory& memory, const ObjectLayout& layout,
                        process::RemoteAddress deque, std::size_t max_items);

// A PyDictKeysObject: a head, a hash table of indices, and the entries in order of insertion. An entry is
// {hash, key, value}, or {key, value} where all keys are str (since 3.11); deleted ones are null.
struct DictKeys {
  process::RemoteAddress entries;
  std::uint64_t count = 0;   // of entries that were ever used...
  std::uint64_t usable = 0;  // ...and of those that there is room for yet
  std::uint64_t words_per_entry = 3;
};
Result<DictKeys> ReadDictKeys(const process::Memory& memory, const ObjectLayout& layout,
                              process::RemoteAddress keys);

// The same as ReadDict() of a table of keys and, where they are not in that table, of an array of values.
Result<DictItems> ReadItems(const process::Memory& memory, const ObjectLayout& layout,
                            process::RemoteAddress keys, process::RemoteAddress values,
                            std::size_t max_items);

}  // namespace probing::cpython
