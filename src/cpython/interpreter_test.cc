// What belongs to a target may be anything. Garbage must give errors, in bounded time.

#include "cpython/interpreter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cpython/fake_memory.h"
#include "cpython/tasks.h"
#include "cpython/thread_names.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kSize = 1 << 16;

Location LocationIn(const Offsets& offsets, const Version& version, std::mt19937& random) {
  const auto any = [&] { return RemoteAddress{FakeMemory::kBase + random() % kSize / 8 * 8}; };
  Location location;
  location.version = version;
  location.offsets = offsets;
  location.first_interpreter = any();
  if (version.minor < 12) location.current_thread = any();
  return location;
}

void ReadEverything(const FakeMemory& memory, const Location& location, std::mt19937& random) {
  if (const auto states = ReadStates(memory, location); states.ok()) {
    for (const InterpreterState& state : *states) FindGilHolder(memory, location, state);
  }
  StackReader stacks(memory, location);
  TaskReader tasks(memory, location, process::Maps::Of({}), stacks);
  for (int i = 0; i < 20; ++i) {
    const RemoteAddress thread{FakeMemory::kBase + random() % kSize / 8 * 8};
    EXPECT_LE(stacks.Read(thread, {.max_depth = 64, .attempts = 2}).frames.size(), 64U);
    EXPECT_LE(ReadThreadNames(memory, location, thread).size(), kSize);
    EXPECT_LE(tasks.Read({thread, {}}).tasks.size(), kSize);
    const AttributeReader attributes(memory, location);
    (void)attributes.FindAttribute(thread, "name");
    (void)attributes.FindVariable(thread, "name");
  }
}

class Hostile : public testing::TestWithParam<int> {
 protected:
  Offsets OffsetsOfVersion() {
    if (const auto known = KnownOffsets({3, GetParam(), 0}); known.ok()) return *known;
    Offsets offsets = *KnownOffsets({3, 12, 0});  // shaped like 3.14t
    offsets.thread.c_frame = kAbsent;
    offsets.thread.frame = 72;
    offsets.code.bytecode_copies = 200;
    offsets.frame.bytecode_index = 72;
    offsets.gil.enabled = 0;
    return offsets;
  }
};

TEST_P(Hostile, NoiseGivesErrorsAndNoCrash) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (int round = 0; round < 20; ++round) {
    FakeMemory memory(kSize);
    memory.FillWithNoise(random);
    ReadEverything(memory, LocationIn(OffsetsOfVersion(), {3, GetParam(), 0}, random), random);
  }
}

TEST_P(Hostile, PointersToEverywhereGiveAnEndAndNoCrash) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (int round = 0; round < 20; ++round) {
    FakeMemory memory(kSize);
    memory.FillWithPointers(random);
    ReadEverything(memory, LocationIn(OffsetsOfVersion(), {3, GetParam(), 0}, random), random);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, Hostile, testing::Values(6, 7, 8, 9, 10, 11, 12, 14));

TEST(DebugOffsets, ATableOfNonsenseIsDamaged) {
  FakeMemory memory(kSize);
  const RemoteAddress runtime = memory.Allocate(4096);
  memory.Write(runtime, std::string_view("xdebugpy"));
  for (const std::uint64_t version : {0x030d00f0, 0x030e00f0}) {
    memory.Write(runtime + 8, version);
    for (std::uint64_t at = 24; at < 1024; at += 8) memory.Write(runtime + at, UINT64_MAX - at);
    const auto description = ReadDebugOffsets(memory, runtime);
    ASSERT_FALSE(description.ok());
    EXPECT_NE(description.error().message.find("damaged"), std::string::npos);
  }
}

TEST(DebugOffsets, AnUnknownVersionIsNamed) {
  FakeMemory memory(kSize);
  const RemoteAddress runtime = memory.Allocate(4096);
  memory.Write(runtime, std::string_view("xdebugpy"));
  memory.Write(runtime + 8, std::uint64_t{0x031f00f0});
  const auto description = ReadDebugOffsets(memory, runtime);
  ASSERT_FALSE(description.ok());
  EXPECT_NE(description.error().message.find("3.31.0"), std::string::npos);
}

TEST(Interpreter, AProcessWithoutPythonIsSaidToBeOne) {
  const auto interpreter = Interpreter::Attach(getpid());
  ASSERT_FALSE(interpreter.ok());
  EXPECT_EQ(interpreter.error().code, Code::kFailed);
  EXPECT_NE(interpreter.error().message.find("no Python interpreter"), std::string::npos);
}

TEST(Interpreter, AProcessThatDoesNotExistIsNotFound) {
  const auto interpreter = Interpreter::Attach(1 << 22 | 1);
  ASSERT_FALSE(interpreter.ok());
  EXPECT_EQ(interpreter.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace probing::cpython
