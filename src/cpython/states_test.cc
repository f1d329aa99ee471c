// Who has the GIL, on constructed states of each way in which CPython keeps it.

#include "cpython/states.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

class GilHolder : public testing::Test {
 protected:
  void Use(int minor) {
    location_.version = {3, minor, 0};
    location_.offsets = *KnownOffsets(location_.version);
    interpreter_.address = memory_.Allocate(2048);
    for (int i = 0; i < 3; ++i) interpreter_.threads.push_back({memory_.Allocate(512), 0, 0});
  }
  RemoteAddress Thread(std::size_t i) const { return interpreter_.threads[i].address; }
  std::optional<RemoteAddress> Find() const { return FindGilHolder(memory_, location_, interpreter_); }

  FakeMemory memory_{1 << 14};
  Location location_;
  InterpreterState interpreter_;
};

TEST_F(GilHolder, IsTheCurrentThreadUpTo311) {
  Use(9);
  location_.current_thread = memory_.Allocate(8);
  for (std::size_t i = 0; i < 3; ++i) {
    memory_.Write(location_.current_thread, Thread(i));
    EXPECT_EQ(Find(), Thread(i));
  }
  memory_.Write(location_.current_thread, RemoteAddress{});
  EXPECT_EQ(Find(), std::nullopt);
  memory_.Write(location_.current_thread, memory_.Allocate(512));
  EXPECT_EQ(Find(), std::nullopt) << "a thread of another interpreter";
}

TEST_F(GilHolder, IsTheLastHolderOfALockedGilSince312) {
  Use(12);
  const RemoteAddress gil = memory_.Allocate(64);
  memory_.Write(interpreter_.address + location_.offsets.interpreter.gil, gil);
  memory_.Write(gil + location_.offsets.gil.last_holder, Thread(1));
  memory_.Write(gil + location_.offsets.gil.locked, std::int32_t{1});
  EXPECT_EQ(Find(), Thread(1));
  memory_.Write(gil + location_.offsets.gil.last_holder, Thread(2));
  EXPECT_EQ(Find(), Thread(2));
  memory_.Write(gil + location_.offsets.gil.locked, std::int32_t{0});
  EXPECT_EQ(Find(), std::nullopt) << "the last one to have had it has it no more";
}

}  // namespace
}  // namespace probing::cpython
