#include "trace/memory_snapshot.h"

#include <gtest/gtest.h>

namespace probing::trace {
namespace {

MemorySnapshot ReadText(const char* json, std::size_t most_blocks = 100) {
  const Result<DataTree> tree = ReadJson(json);
  EXPECT_TRUE(tree.ok());
  Result<MemorySnapshot> snapshot = ReadMemorySnapshot(*tree, most_blocks);
  EXPECT_TRUE(snapshot.ok());
  return std::move(*snapshot);
}

TEST(MemorySnapshotTest, ThePlaceIsTheInnermostFrameThatIsNotTorchs) {
  const MemorySnapshot snapshot = ReadText(R"({"segments": [{"device": 1, "address": 8, "blocks": [
    {"address": 8, "size": 4, "requested_size": 3, "state": "active_allocated", "frames": [
      {"name": "empty", "filename": "/venv/site-packages/torch/_tensor.py", "line": 1},
      {"name": "at::native", "filename": "??", "line": 0},
      {"name": "make;them", "filename": "/job/model.py", "line": 7},
      {"name": "main", "filename": "/job/train.py", "line": 3}]}]}]})");
  ASSERT_EQ(snapshot.blocks.size(), 1U);
  const MemoryBlock& block = snapshot.blocks[0];
  EXPECT_EQ(snapshot.texts.At(block.function), "make;them");
  EXPECT_EQ(snapshot.texts.At(block.file), "/job/model.py");
  EXPECT_EQ(block.line, 7);
  EXPECT_EQ(snapshot.texts.At(block.stack),
            "main (train.py:3);make,them (model.py:7);at::native (??:0);empty (_tensor.py:1)");
  EXPECT_EQ(block.device, 1);
  EXPECT_EQ(block.requested, 3);
}

TEST(MemorySnapshotTest, TheLastAllocationAtAnAddressIsTheBlocks) {
  const MemorySnapshot snapshot = ReadText(R"({"segments": [{"device": 0, "address": 8, "blocks": [
      {"address": 8, "size": 4, "state": "active_allocated"}, {"size": 4, "state": "active_awaiting_free"}]}],
    "device_traces": [[{"action": "alloc", "addr": 8, "time_us": 1}, {"action": "alloc", "addr": 8, "time_us": 5},
                       {"action": "oom", "size": 99, "device_free": 3, "time_us": 7}]]})");
  ASSERT_EQ(snapshot.blocks.size(), 3U);
  EXPECT_EQ(snapshot.blocks[0].state, BlockState::kFailed);
  EXPECT_EQ(snapshot.blocks[0].bytes, 99);
  EXPECT_EQ(snapshot.blocks[1].allocated_ns, 5000);
  EXPECT_EQ(snapshot.blocks[2].state, BlockState::kPendingFree);
  EXPECT_EQ(snapshot.blocks[2].address, 12) << "it follows the one before";
  EXPECT_EQ(snapshot.blocks[2].allocated_ns, kNoNumber);
}

TEST(MemorySnapshotTest, BlocksBeyondTheLimitAreCounted) {
  const char* const text = R"({"segments": [{"blocks": [{"size": 1}, {"size": 1}, {"size": 1}]}]})";
  EXPECT_EQ(ReadText(text, 2).lost, 1U);
  EXPECT_EQ(ReadText(text, 3).lost, 0U);
}

TEST(MemorySnapshotTest, NumbersThatMakeNoSenseAreNone) {
  const MemorySnapshot snapshot = ReadText(
      R"({"segments": [{"device": -3, "address": -1, "total_size": "x", "blocks": [
          {"size": -5, "address": 9223372036854775807, "state": 4}, {"size": 9223372036854775807}]}]})");
  ASSERT_EQ(snapshot.blocks.size(), 2U);
  EXPECT_EQ(snapshot.blocks[0].device, 0);
  EXPECT_EQ(snapshot.blocks[0].bytes, 0);
  EXPECT_EQ(snapshot.blocks[0].segment, kNoNumber);
}

TEST(MemorySnapshotTest, OtherDataIsRefused) {
  for (const char* text : {"{}", "3", R"({"segments": 1})", R"([{"name": "x"}])"}) {
    const Result<DataTree> tree = ReadJson(text);
    ASSERT_TRUE(tree.ok());
    EXPECT_FALSE(ReadMemorySnapshot(*tree, 10).ok()) << text;
  }
}

}  // namespace
}  // namespace probing::trace
