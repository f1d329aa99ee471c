#include "cpython/stack_reader.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"
#include "cpython/states.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

// A tiny Python 3.10: one thread, frames that are made by hand.
class FakePython : public testing::Test {
 protected:
  FakePython() {
    location_.version = {3, 10, 13};
    location_.offsets = *KnownOffsets(location_.version);
    location_.code_type = memory_.Allocate(16);
    thread_ = memory_.Allocate(256);
  }

  RemoteAddress MakeStr(std::string_view text) {
    const RemoteAddress at = memory_.Allocate(48 + text.size());
    memory_.Write(at + 16, static_cast<std::int64_t>(text.size()));
    memory_.Write(at + 32, std::uint32_t{(1 | 8 | 16) << 2});
    memory_.Write(at + 48, text);
    return at;
  }

  RemoteAddress MakeCode(std::string_view name, std::int32_t first_line) {
    const RemoteAddress table = memory_.Allocate(48);
    memory_.Write(table + 16, std::int64_t{4});
    memory_.Write(table + 32, std::string_view("\x08\x01\x08\x01", 4));  // 4 units each on the next two lines
    const RemoteAddress code = memory_.Allocate(256);
    const Offsets::Code& fields = location_.offsets.code;
    memory_.Write(code + location_.offsets.object_type, location_.code_type);
    memory_.Write(code + fields.name, MakeStr(name));
    memory_.Write(code + fields.filename, MakeStr("a.py"));
    memory_.Write(code + fields.line_table, table);
    memory_.Write(code + fields.first_line, first_line);
    return code;
  }

  RemoteAddress MakeFrame(RemoteAddress code, std::int32_t instruction, RemoteAddress back) {
    const RemoteAddress frame = memory_.Allocate(128);
    memory_.Write(frame + location_.offsets.frame.code, code);
    memory_.Write(frame + location_.offsets.frame.instruction, instruction);
    memory_.Write(frame + location_.offsets.frame.previous, back);
    return frame;
  }

  RemoteAddress MakeThread(RemoteAddress innermost) {
    const RemoteAddress thread = memory_.Allocate(256);
    memory_.Write(thread + location_.offsets.thread.frame, innermost);
    return thread;
  }

  void SetInnermost(RemoteAddress frame) { memory_.Write(thread_ + location_.offsets.thread.frame, frame); }

  FakeMemory memory_{1 << 20};
  Location location_;
  RemoteAddress thread_;
};

TEST_F(FakePython, AStackIsReadInnermostFirst) {
  const RemoteAddress outer = MakeFrame(MakeCode("outer", 10), 0, {});
  SetInnermost(MakeFrame(MakeCode("inner", 20), 5, outer));
  const Stack stack = StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 3});
  ASSERT_EQ(stack.frames.size(), 2U);
  EXPECT_EQ(stack.frames[0].function, "inner");
  EXPECT_EQ(stack.frames[0].line, 22);
  EXPECT_EQ(stack.frames[1].function, "outer");
  EXPECT_EQ(stack.frames[1].file, "a.py");
  EXPECT_EQ(stack.frames[1].line, 11);
  EXPECT_FALSE(stack.torn);
}

TEST_F(FakePython, AThreadWithoutFramesIsNotTorn) {
  const Stack stack = StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 3});
  EXPECT_TRUE(stack.frames.empty());
  EXPECT_FALSE(stack.torn);
}

TEST_F(FakePython, TheInnermostFramesAreKeptWhenThereAreTooMany) {
  const RemoteAddress code = MakeCode("f", 1);
  RemoteAddress frame;
  for (int i = 0; i < 50; ++i) frame = MakeFrame(code, i % 8, frame);
  SetInnermost(frame);
  const Stack stack = StackReader(memory_, location_).Read(thread_, {.max_depth = 10, .attempts = 3});
  EXPECT_EQ(stack.frames.size(), 10U);
  EXPECT_TRUE(stack.truncated);
}

TEST_F(FakePython, FramesInACircleAreTornNotEndless) {
  const RemoteAddress first = MakeFrame(MakeCode("f", 1), 0, {});
  memory_.Write(first + location_.offsets.frame.previous, first);
  SetInnermost(first);
  EXPECT_TRUE(StackReader(memory_, location_).Read(thread_, {.max_depth = 4096, .attempts = 3}).torn);
}

TEST_F(FakePython, AChainThatEndsInAFrameThatWasLeftIsTorn) {
  const RemoteAddress left = MakeFrame(MakeCode("left", 1), 0, {});
  memory_.Write(left + location_.offsets.frame.executing, std::int8_t{1});  // FRAME_RETURNED
  SetInnermost(left);
  EXPECT_TRUE(StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 10}).torn);
}

TEST_F(FakePython, AGeneratorThatStaysWithoutACallerIsBelieved) {
  const RemoteAddress generator = MakeFrame(MakeCode("generator", 1), 0, {});
  memory_.Write(generator + location_.offsets.frame.generator, std::uint64_t{1});
  SetInnermost(generator);
  EXPECT_EQ(StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 10}).frames.size(),
            1U);
}

TEST_F(FakePython, AFrameWithoutCodeIsTorn) {
  SetInnermost(MakeFrame(memory_.Allocate(256), 0, {}));
  EXPECT_TRUE(StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 3}).torn);
}

TEST_F(FakePython, ACallerThatMovesAllTheTimeIsTorn) {
  const RemoteAddress outer = MakeFrame(MakeCode("outer", 10), 0, {});
  SetInnermost(MakeFrame(MakeCode("inner", 20), 0, outer));
  memory_.before_read = [&, n = 0]() mutable {
    memory_.Write(outer + location_.offsets.frame.instruction, std::int32_t{n++});
  };
  const Stack stack = StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 5});
  EXPECT_TRUE(stack.torn);
  EXPECT_TRUE(stack.frames.empty());
}

TEST_F(FakePython, AStackThatSettlesIsReadAgainUntilItDoes) {
  const RemoteAddress outer = MakeFrame(MakeCode("outer", 10), 0, {});
  const RemoteAddress inner = MakeFrame(MakeCode("inner", 20), 0, outer);
  SetInnermost(inner);
  memory_.before_read = [&, reads = 0]() mutable {
    if (++reads < 30) SetInnermost(reads % 2 == 0 ? inner : outer);
  };
  const Stack stack = StackReader(memory_, location_).Read(thread_, {.max_depth = 100, .attempts = 20});
  EXPECT_FALSE(stack.torn);
  EXPECT_FALSE(stack.frames.empty());
}

TEST_F(FakePython, ACodeObjectThatTookThePlaceOfAnotherIsNoticed) {
  const RemoteAddress code = MakeCode("before", 1);
  SetInnermost(MakeFrame(code, 0, {}));
  StackReader reader(memory_, location_);
  EXPECT_EQ(reader.Read(thread_, {.max_depth = 100, .attempts = 3}).frames.at(0).function, "before");
  memory_.Write(code + location_.offsets.code.name, MakeStr("after"));
  EXPECT_EQ(reader.Read(thread_, {.max_depth = 100, .attempts = 3}).frames.at(0).function, "after");
}

TEST_F(FakePython, ManyStacksAreReadAtOnceAndThoseInDoubtAreLeftToBeReadAlone) {
  const RemoteAddress outer = MakeFrame(MakeCode("outer", 10), 0, {});
  const RemoteAddress circle = MakeFrame(MakeCode("circle", 1), 0, {});
  memory_.Write(circle + location_.offsets.frame.previous, circle);
  const std::vector<RemoteAddress> threads{MakeThread(MakeFrame(MakeCode("inner", 20), 5, outer)),
                                           MakeThread({}), MakeThread(circle),
                                           MakeThread(MakeFrame(MakeCode("alone", 30), 0, {}))};
  const auto stacks = StackReader(memory_, location_).ReadMany(threads, {.max_depth = 100});
  ASSERT_EQ(stacks.size(), 4U);
  ASSERT_EQ(stacks[0].frames.size(), 2U);
  EXPECT_EQ(stacks[0].frames[0].function, "inner");
  EXPECT_EQ(stacks[0].frames[1].line, 11);
  EXPECT_TRUE(stacks[1].torn);
  EXPECT_TRUE(stacks[2].torn);
  EXPECT_EQ(stacks[3].frames.at(0).function, "alone");
}

TEST_F(FakePython, OfManyStacksOneThatMovesBetweenTwoReadingsIsTorn) {
  const RemoteAddress moving = MakeFrame(MakeCode("moving", 10), 0, {});
  const std::vector<RemoteAddress> threads{MakeThread(MakeFrame(MakeCode("still", 20), 0, {})),
                                           MakeThread(moving)};
  memory_.before_read = [&, n = 0]() mutable {
    memory_.Write(moving + location_.offsets.frame.instruction, std::int32_t{n++ % 8});
  };
  StackReader reader(memory_, location_);
  const auto stacks = reader.ReadMany(threads, {.max_depth = 100, .must_stand_still = true});
  EXPECT_FALSE(stacks.at(0).torn);
  EXPECT_TRUE(stacks.at(1).torn);
  EXPECT_TRUE(stacks.at(1).frames.empty());
}

TEST_F(FakePython, WhereOneOfManyCannotBeReadNoneIsGuessed) {
  const std::vector<RemoteAddress> threads{MakeThread(MakeFrame(MakeCode("still", 20), 0, {})),
                                           MakeThread(RemoteAddress{8})};
  StackReader reader(memory_, location_);
  for (const Stack& stack : reader.ReadMany(threads, {.max_depth = 100})) EXPECT_TRUE(stack.torn);
  EXPECT_EQ(reader.Read(threads[0], {.max_depth = 100, .attempts = 3}).frames.size(), 1U);
}

}  // namespace
}  // namespace probing::cpython
