#include "nccl/events.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace probing::nccl {
namespace {

TEST(Events, AHandleOfAnEventThatIsOverFindsNothing) {
  Handle handle = 0;
  Event* event = NewEvent(handle);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(handle & 1, 1U);
  EXPECT_EQ(Hold(handle), event);
  EXPECT_FALSE(LetGo(*event, When::kNow));
  EXPECT_TRUE(LetGo(*event, When::kNow));
  EXPECT_EQ(Hold(handle), nullptr) << "somebody finishes it";
  Free(*event);
  EXPECT_EQ(Hold(handle), nullptr);
  Handle again = 0;
  EXPECT_EQ(NewEvent(again), event) << "the last that was freed";
  EXPECT_NE(again, handle);
  EXPECT_EQ(Hold(handle), nullptr);
  EXPECT_TRUE(LetGo(*event, When::kNow));
  Free(*event);
}

TEST(Events, HandlesFromNowhereFindNothing) {
  for (const Handle handle : {Handle{0}, Handle{1}, ~Handle{0}, Handle{0x7ffe12345678}, Handle{0x1ffff}})
    EXPECT_EQ(Hold(handle), nullptr) << handle;
}

TEST(Events, OneThatAwaitsPartsIsFinishedWhenItIsOld) {
  Handle handle = 0;
  Event* event = NewEvent(handle);
  EXPECT_FALSE(LetGo(*event, When::kLater));
  EXPECT_EQ(Hold(handle), event) << "a part that comes late";
  Event* old = nullptr;
  EXPECT_FALSE(LetGoOfOld(handle, old)) << "the part is not over";
  EXPECT_TRUE(LetGo(*event, When::kLater));
  EXPECT_FALSE(LetGoOfOld(handle, old));
  Free(*event);
}

TEST(Events, AFullPoolIsCounted) {
  std::vector<Event*> taken;
  const std::int64_t before = LostEvents();
  Handle handle = 0;
  while (Event* event = NewEvent(handle)) taken.push_back(event);
  EXPECT_EQ(taken.size(), 8192U);
  EXPECT_EQ(LostEvents(), before + 1);
  EXPECT_EQ(NewEvent(handle), nullptr);
  EXPECT_EQ(LostEvents(), before + 2);
  for (Event* event : taken) {
    EXPECT_TRUE(LetGo(*event, When::kNow));
    Free(*event);
  }
  EXPECT_NE(NewEvent(handle), nullptr);
}

TEST(Events, ManyThreadsNeverShareOne) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&wrong, i] {
      for (int round = 0; round < 20'000; ++round) {
        Handle handle = 0;
        Event* event = NewEvent(handle);
        if (event == nullptr) continue;
        event->seq = i * 1'000'000 + round;
        if (Hold(handle) != event) ++wrong;
        if (event->seq != i * 1'000'000 + round) ++wrong;
        if (LetGo(*event, When::kLater)) ++wrong;
        if (!LetGo(*event, When::kNow)) ++wrong;
        Free(*event);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace probing::nccl
