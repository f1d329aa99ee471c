#include "cpython/thread_ids.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::uint32_t kIdPlace = 720;

ThreadState MakeRecord(FakeMemory& memory, std::int32_t own_id) {
  const RemoteAddress record = memory.Allocate(1024);
  memory.Write(record + 16, std::int32_t{100});  // every record mentions the first thread somewhere
  memory.Write(record + kIdPlace, own_id);
  return {{}, record.address, 0};
}

TEST(ThreadIds, AreFoundInTheRecordsOfTheCLibrary) {
  FakeMemory memory(1 << 16);
  const std::vector<ThreadState> threads = {MakeRecord(memory, 102), MakeRecord(memory, 101),
                                            MakeRecord(memory, 100)};
  const ThreadNumbers numbers = {{100, 9100}, {101, 9101}, {102, 9102}};
  EXPECT_EQ(FindThreadIds(memory, threads, numbers), (std::vector<pid_t>{9102, 9101, 9100}));
}

TEST(ThreadIds, NativeIdsAreTakenWhereTheyAreAlive) {
  FakeMemory memory(1 << 16);
  ThreadState stale = MakeRecord(memory, 101);
  stale.native_id = 55;  // left over from before a fork
  ThreadState good = MakeRecord(memory, 100);
  good.native_id = 100;
  EXPECT_EQ(FindThreadIds(memory, {stale, good}, {{100, 100}, {101, 101}}), (std::vector<pid_t>{101, 100}));
}

TEST(ThreadIds, NothingIsInvented) {
  FakeMemory memory(1 << 16);
  const ThreadState unreadable{{}, 0xdead0000, 0};
  const ThreadState absurd{{}, 0xdead0000, UINT64_MAX};
  EXPECT_EQ(FindThreadIds(memory, {unreadable, absurd}, {{100, 100}}), (std::vector<pid_t>{0, 0}));
}

}  // namespace
}  // namespace probing::cpython
