#include "process/page_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace probing::process {
namespace {

// Counts, and knows only the addresses below its end.
class CountingMemory final : public Memory {
 public:
  explicit CountingMemory(std::uint64_t end) : end_(end) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override {
    ++reads;
    if (from.address + out.size() > end_) return Error{Code::kFailed, "beyond the end", ""};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((from.address + i) / 100);
    return {};
  }
  mutable int reads = 0;

 private:
  std::uint64_t end_;
};

TEST(PageCache, ReadsAPageOnceAndAcrossPages) {
  const CountingMemory memory(3 * 4096);
  const PageCache cache(memory);
  for (std::uint64_t at = 0; at < 8000; at += 7) {
    std::array<std::byte, 40> bytes{};
    ASSERT_TRUE(cache.Read(RemoteAddress{at}, bytes).ok());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], static_cast<std::byte>((at + i) / 100)) << at;
  }
  EXPECT_EQ(memory.reads, 2);
}

TEST(PageCache, PartOfAPageThatCannotBeReadAsAWholeIsStillRead) {
  const CountingMemory memory(5000);
  const PageCache cache(memory);
  EXPECT_TRUE(cache.ReadValue(RemotePtr<std::uint64_t>{4500}).ok());
  EXPECT_FALSE(cache.ReadValue(RemotePtr<std::uint64_t>{4996}).ok());
  EXPECT_TRUE(cache.ReadValue(RemotePtr<std::uint64_t>{4092}).ok()) << "half of it in each page";
}

TEST(PageCache, DoesNotGrowForEver) {
  const CountingMemory memory(1 << 30);
  const PageCache cache(memory);
  for (std::uint64_t at = 0; at < 5000 * 4096; at += 4096)
    ASSERT_TRUE(cache.ReadValue(RemotePtr<std::uint64_t>{at}).ok());
  EXPECT_EQ(memory.reads, 5000);
  ASSERT_TRUE(cache.ReadValue(RemotePtr<std::uint64_t>{4999 * 4096}).ok());
  EXPECT_EQ(memory.reads, 5001) << "not kept";
}

}  // namespace
}  // namespace probing::process
