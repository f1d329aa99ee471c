// When there is not enough memory: an error or older rows lost, never a signal.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ring/testing.h"

namespace probing::ring {
namespace {

using testing::MakeArena;
using testing::MakeTable;
using testing::OpenReader;
using testing::ReadInts;

TableOptions Numbers(std::string name = "test.memory", std::uint64_t rows = 100'000) {
  return {
      .name = std::move(name),
      .columns = {{"time", ColumnType::kTimestamp}, {"n", ColumnType::kInt64}, {"text", ColumnType::kString}},
      .rows = rows};
}

WriteStatus WriteNumber(Table* table, std::int64_t n, std::string_view text = "") {
  RowWriter row(*table);
  row.SetInt(1, n);
  if (!text.empty()) row.SetString(2, text);
  return row.Commit();
}

// Writes 100,000 rows. 0 when the last ones can be read and every row is accounted for.
int FillUp(Arena* arena, Table* table) {
  const std::string text(1000, 'x');
  std::uint64_t written = 0;
  for (int n = 0; n < 100'000; ++n) {
    if (WriteNumber(table, n, n % 10 == 0 ? text : "") == WriteStatus::kWritten) ++written;
  }
  Reader reader = OpenReader(arena->fd());
  const std::vector<std::int64_t> values = ReadInts(&reader, table->name(), 1);
  const TableCounters counters = testing::FindTable(&reader, table->name()).counters;
  if (counters.written != written || counters.written + counters.dropped != 100'000) return 1;
  if (values.size() != counters.written - counters.overwritten) return 2;
  if (values.size() < 100 || values.size() >= 100'000) return 3;
  if (values.back() < 99'900) return 4;
  return 0;
}

int InChild(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Memory, TheLimitIsKeptAndTheOldestRowsMakeRoom) {
  const auto arena = MakeArena(1U << 20);
  Table* table = MakeTable(arena.get(), Numbers());
  EXPECT_EQ(FillUp(arena.get(), table), 0);
  EXPECT_LE(arena->allocated_bytes(), 1U << 20);
  struct stat info{};
  ASSERT_EQ(fstat(arena->fd(), &info), 0);
  EXPECT_LE(info.st_blocks * 512, 1 << 20);
}

TEST(Memory, ATableThatDoesNotFitIsAnErrorThatSaysWhatToDo) {
  const auto arena = MakeArena(200'000);
  Result<Table*> table = arena->AddTable(Numbers("test.large", 1'000'000));
  ASSERT_TRUE(table.ok() || table.error().hint.find("probing.max_memory") != std::string::npos);
  for (int i = 0; i < 20; ++i) table = arena->AddTable(Numbers("test.t" + std::to_string(i)));
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.error().hint.find("probing.max_memory"), std::string::npos);
  ArenaOptions options;
  options.max_memory = 1000;
  EXPECT_FALSE(Arena::Create(std::move(options)).ok());
}

TEST(Memory, IsUsedOnlyAsRowsCome) {
  const auto arena = MakeArena(1U << 30);
  const std::uint64_t empty = arena->allocated_bytes();
  for (int i = 0; i < 30; ++i) {
    WriteNumber(MakeTable(arena.get(), Numbers("test.t" + std::to_string(i), 10'000)), i);
  }
  EXPECT_LT(arena->allocated_bytes() - empty, 30 * 32'768U);
}

TEST(Memory, LoweringTheLimitGivesMemoryBackAndRowsGoOn) {
  const auto arena = MakeArena(64U << 20);
  Table* large = MakeTable(arena.get(), Numbers("test.large"));
  Table* small = MakeTable(arena.get(), Numbers("test.small"));
  for (int n = 0; n < 100'000; ++n) ASSERT_EQ(WriteNumber(large, n), WriteStatus::kWritten);
  for (int n = 0; n < 1000; ++n) ASSERT_EQ(WriteNumber(small, n), WriteStatus::kWritten);
  arena->SetMaxMemory(1U << 20);
  EXPECT_LE(arena->allocated_bytes(), 1U << 20);
  Reader reader = OpenReader(arena->fd());
  EXPECT_EQ(ReadInts(&reader, "test.small", 1).size(), 1000U);
  EXPECT_TRUE(ReadInts(&reader, "test.large", 1).empty());
  EXPECT_EQ(testing::FindTable(&reader, "test.large").counters.overwritten, 100'000U);
  for (int n = 0; n < 100'000; ++n) ASSERT_EQ(WriteNumber(large, n), WriteStatus::kWritten);
  EXPECT_LE(arena->allocated_bytes(), 1U << 20);
  EXPECT_GT(ReadInts(&reader, "test.large", 1).size(), 1000U);
  EXPECT_EQ(testing::FindTable(&reader, "test.large").counters.written, 200'000U);
}

TEST(Memory, ALimitOfFileSizesIsAnErrorAndNotASignal) {
  EXPECT_EQ(InChild([] {
              const auto arena = MakeArena(64U << 20);
              Table* table = MakeTable(arena.get(), Numbers());
              struct stat info{};
              fstat(arena->fd(), &info);
              const rlimit limit{static_cast<rlim_t>(info.st_size) + 4096, RLIM_INFINITY};
              setrlimit(RLIMIT_FSIZE, &limit);
              for (int n = 0; n < 10'000; ++n) {
                if (WriteNumber(table, n) != WriteStatus::kWritten) return 1;
              }
              // No heap can be made for it.
              if (WriteNumber(table, 0, std::string(1000, 'x')) != WriteStatus::kDropped) return 2;
              return arena->AddTable(Numbers("test.more")).ok() ? 3 : 0;
            }),
            0);
}

TEST(Memory, ALimitOfAddressSpaceIsAnErrorAndNotASignal) {
#ifdef PROBING_SANITIZED
  GTEST_SKIP() << "sanitizers need address space without limit";
#endif
  EXPECT_EQ(InChild([] {
              const auto arena = MakeArena(1U << 30);
              Table* table = MakeTable(arena.get(), Numbers("test.memory", 1000));
              std::string statm(100, '\0');
              const int fd = open("/proc/self/statm", O_RDONLY);
              if (read(fd, statm.data(), statm.size()) <= 0) return 1;
              const rlim_t used = strtoull(statm.c_str(), nullptr, 10) * 4096;
              const rlimit limit{used + (2U << 20), RLIM_INFINITY};
              setrlimit(RLIMIT_AS, &limit);
              if (arena->AddTable(Numbers("test.large", 10'000'000)).ok()) return 2;
              const std::string text(100'000, 'x');
              for (int n = 0; n < 10'000; ++n) {
                const WriteStatus status = WriteNumber(table, n, n % 100 == 0 ? text : "");
                if (n % 100 != 0 && status != WriteStatus::kWritten) return 3;
              }
              return 0;
            }),
            0);
}

TEST(Memory, AFullTmpfsIsAnErrorAndNotASignal) {
  const int end = InChild([] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "size=512k") != 0) {
      return 77;
    }
    ArenaOptions options;
    options.max_memory = 64U << 20;
    options.file = ScopedFd(open("/tmp/ring", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    Result<std::unique_ptr<Arena>> arena = Arena::Create(std::move(options));
    if (!arena.ok()) return 10;
    return FillUp(arena->get(), MakeTable(arena->get(), Numbers()));
  });
  if (end == 77) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  EXPECT_EQ(end, 0);
}

TEST(Memory, AJobThatClosesOurDescriptorAndReusesItsNumberLosesNothing) {
  const auto arena = MakeArena(64U << 20);
  Table* table = MakeTable(arena.get(), Numbers());
  Reader reader = OpenReader(arena->fd());
  for (int n = 0; n < 5; ++n) ASSERT_EQ(WriteNumber(table, n), WriteStatus::kWritten);
  char path[] = "/tmp/probing-ring-XXXXXX";
  const int theirs = mkstemp(path);
  unlink(path);
  ASSERT_EQ(dup2(theirs, arena->fd()), arena->fd());
  for (int n = 5; n < 20'000; ++n) ASSERT_EQ(WriteNumber(table, n), WriteStatus::kWritten);
  EXPECT_EQ(WriteNumber(table, 0, std::string(1000, 'x')), WriteStatus::kDropped);
  EXPECT_EQ(testing::FindTable(&reader, "test.memory").counters.dropped, 1U);
  EXPECT_EQ(ReadInts(&reader, "test.memory", 1).back(), 19'999);
  struct stat info{};
  ASSERT_EQ(fstat(theirs, &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_EQ(info.st_blocks, 0);
  close(theirs);
}

}  // namespace
}  // namespace probing::ring
