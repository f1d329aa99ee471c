// What belongs to a target may be anything. Garbage must give errors, in bounded time.

#include "cpython/interpreter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "cpython/fake_memory.h"
#include "cpython/newest_version.h"
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

// What Debian's python3.15 says about itself, behind the cookie.
constexpr std::array<std::uint64_t, 106> kTable315 = {
    51315440, 0,    346568, 912,  936, 226240, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584, 16,  7736,
    0,        7752, 7744,   7944, 0,   888,    0,    8,    16,   72,   80,   88,   96,   176,  184, 256,
    32,       36,   40,     136,  288, 0,      88,   8,    0,    56,   80,   74,   64,   0,    216, 112,
    120,      128,  136,    68,   52,  96,     104,  208,  0,    16,   8,    424,  24,   88,   168, 32,
    288,      944,  888,    40,   32,  16,     40,   24,   16,   200,  24,   40,   32,   48,   32,  40,
    24,       16,   32,     16,   24,  40,     16,   32,   64,   32,   16,   40,   56,   176,  112, 120,
    1120,     104,  160,    24,   72,  67,     0,    8,    24,   344};

Result<SelfDescription> Read(const std::vector<std::uint64_t>& table) {
  FakeMemory memory(kSize);
  const RemoteAddress runtime = memory.Allocate(4096);
  memory.Write(runtime, std::string_view("xdebugpy"));
  for (std::size_t i = 0; i < table.size(); ++i) memory.Write(runtime + 8 + 8 * i, table[i]);
  return ReadDebugOffsets(memory, runtime);
}

std::vector<std::uint64_t> TableOf316() {
  std::vector<std::uint64_t> table(kTable315.begin(), kTable315.end());
  table[0] = 0x031000f0;
  return table;
}

// All that a stack is read with.
std::vector<std::uint32_t> ForStacks(const Offsets& o) {
  return {o.runtime.interpreters_head,
          o.interpreter.next,
          o.interpreter.threads_head,
          o.thread.next,
          o.thread.interpreter,
          o.thread.frame,
          o.thread.thread_id,
          o.thread.native_thread_id,
          o.frame.previous,
          o.frame.code,
          o.frame.instruction,
          o.frame.owner,
          o.frame.locals,
          o.code.filename,
          o.code.name,
          o.code.qualified_name,
          o.code.line_table,
          o.code.first_line,
          o.code.bytecode,
          o.object_type,
          o.bytes.size,
          o.bytes.data,
          o.unicode.length,
          o.unicode.state,
          o.unicode.ascii_data};
}

TEST(DebugOffsets, ANewerVersionIsReadByWhatItSaysAboutItself) {
  const auto known = Read({kTable315.begin(), kTable315.end()});
  const auto newer = Read(TableOf316());
  ASSERT_TRUE(known.ok());
  ASSERT_TRUE(newer.ok()) << newer.error().message;
  EXPECT_EQ(newer->version.ToText(), "3.16.0");
  EXPECT_TRUE(IsNewerThanKnown(newer->version));
  EXPECT_FALSE(IsNewerThanKnown(known->version));
  EXPECT_EQ(ForStacks(newer->offsets), ForStacks(known->offsets));
  // The lists of the collector are in no table: they are not guessed.
  EXPECT_NE(known->offsets.interpreter.generations, kAbsent);
  EXPECT_EQ(newer->offsets.interpreter.generations, kAbsent);
}

TEST(DebugOffsets, ATableThatHasGrownIsRefusedOrReadRightly) {
  const std::vector<std::uint32_t> right = ForStacks(Read(TableOf316())->offsets);
  int refused = 0;
  for (std::size_t at = 2; at < kTable315.size(); ++at) {
    for (const std::uint64_t value : {0U, 8U, 24U, 100U}) {
      std::vector<std::uint64_t> table = TableOf316();
      table.insert(table.begin() + static_cast<std::ptrdiff_t>(at), value);
      const auto description = Read(table);
      refused += description.ok() ? 0 : 1;
      if (description.ok()) EXPECT_EQ(ForStacks(description->offsets), right) << at << " " << value;
      if (!description.ok()) EXPECT_NE(description.error().message.find("3.16.0"), std::string::npos);
    }
  }
  EXPECT_GT(refused, 200);
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
