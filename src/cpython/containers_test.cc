#include "cpython/containers.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

// Up to Python 3.5 a dict is one table of {hash, key, value} in the order of hashes, free ones in between.
TEST(Containers, ADictOfPython35IsAHashTable) {
  constexpr std::uint64_t kSlots = 8;
  FakeMemory memory(4096);
  ObjectLayout layout;
  layout.dict_is_hash_table = true;
  const RemoteAddress dict = memory.Allocate(48);
  const RemoteAddress keys = memory.Allocate(32 + kSlots * 24);
  memory.Write<std::uint64_t>(dict + 16, 2);
  memory.Write(dict + 24, keys);
  memory.Write<std::uint64_t>(keys + 8, kSlots);
  const auto put = [&](std::uint64_t slot, std::uint64_t key, std::uint64_t value) {
    memory.Write(keys + 32 + slot * 24 + 8, key);
    memory.Write(keys + 32 + slot * 24 + 16, value);
  };
  put(1, 0x100, 0x200);
  put(4, 0x300, 0);  // deleted
  put(7, 0x500, 0x600);
  const auto items = ReadDict(memory, layout, dict, 10);
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->items.size(), 2U);
  EXPECT_EQ(items->items[0].first.address, 0x100U);
  EXPECT_EQ(items->items[0].second.address, 0x200U);
  EXPECT_EQ(items->items[1].first.address, 0x500U);
  EXPECT_EQ(items->total, 2U);
}

}  // namespace
}  // namespace probing::cpython
