// Children of a writer, and writers that die.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "ring/testing.h"

namespace probing::ring {
namespace {

using testing::MakeArena;
using testing::MakeTable;
using testing::OpenReader;
using testing::ReadInts;

TableOptions Numbers() {
  return {.name = "test.fork",
          .columns = {{"time", ColumnType::kTimestamp},
                      {"n", ColumnType::kInt64},
                      {"square", ColumnType::kInt64}},
          .rows = 1000};
}

WriteStatus WriteNumber(Table* table, std::int64_t n) {
  RowWriter row(*table);
  row.SetInt(1, n);
  row.SetInt(2, n * n);
  return row.Commit();
}

// The exit code, or 128 + the signal that ended it.
int EndOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What a child does with the arena of its parent and with one of its own; 0 when all is well.
int InChild(std::unique_ptr<Arena> arena, Table* table) {
  if (WriteNumber(table, -1) != WriteStatus::kOff) return 1;
  if (arena->AddTable(Numbers()).ok() || arena->FindTable("test.fork") != nullptr) return 2;
  table->SetRows(5);
  arena->SetMaxMemory(1);
  arena->Close();
  arena.reset();
  Result<std::unique_ptr<Arena>> own = Arena::Create({});
  if (!own.ok()) return 3;
  Result<Table*> own_table = (*own)->AddTable(Numbers());
  if (!own_table.ok() || WriteNumber(*own_table, 7) != WriteStatus::kWritten) return 4;
  Reader reader = OpenReader((*own)->fd());
  if (reader.pid() != getpid() || ReadInts(&reader, "test.fork", 1) != std::vector<std::int64_t>{7}) return 5;
  return 0;
}

TEST(Fork, AChildWritesNothingIntoItsParentsRingAndCanHaveItsOwn) {
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  ASSERT_EQ(WriteNumber(table, 1), WriteStatus::kWritten);
  const int parents_fd = arena->fd();
  const pid_t child = fork();
  if (child == 0) _exit(InChild(std::move(arena), table));
  EXPECT_EQ(EndOf(child), 0);
  ASSERT_EQ(WriteNumber(table, 2), WriteStatus::kWritten);
  Reader reader = OpenReader(parents_fd);
  EXPECT_EQ(ReadInts(&reader, "test.fork", 1), (std::vector<std::int64_t>{1, 2}));
}

int MappingsOfRings() {
  FILE* maps = fopen("/proc/self/maps", "re");
  int count = 0;
  for (char line[512]; maps != nullptr && fgets(line, sizeof(line), maps) != nullptr;)
    count += strstr(line, "probing-ring") != nullptr ? 1 : 0;
  if (maps != nullptr) fclose(maps);
  return count;
}

TEST(Fork, NoPartOfItsParentsRingIsMappedInAChild) {
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  ASSERT_EQ(WriteNumber(table, 1), WriteStatus::kWritten);
  ASSERT_GT(MappingsOfRings(), 0);
  const pid_t child = fork();
  if (child == 0) _exit(MappingsOfRings());
  EXPECT_EQ(EndOf(child), 0);
}

TEST(Fork, ADescriptorThatTheJobHasTakenIsNotClosed) {
  auto arena = MakeArena();
  const int fd = arena->fd();
  // As a job that closes all descriptors and then opens files of its own.
  const ScopedFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(dup2(other.get(), fd), fd);
  arena.reset();
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
  close(fd);
}

TEST(Fork, AChildMadeWithoutForkHandlersIsNoDifferent) {
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) _exit(WriteNumber(table, 3) == WriteStatus::kOff ? 0 : 1);
  EXPECT_EQ(EndOf(child), 0);
}

TEST(Fork, ARowBegunBeforeAForkIsWrittenByTheParentOnly) {
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  RowWriter row(*table);
  row.SetInt(1, 9);
  const pid_t child = fork();
  if (child == 0) _exit(row.Commit() == WriteStatus::kOff ? 0 : 1);
  EXPECT_EQ(EndOf(child), 0);
  EXPECT_EQ(row.Commit(), WriteStatus::kWritten);
  Reader reader = OpenReader(arena->fd());
  EXPECT_EQ(ReadInts(&reader, "test.fork", 1), std::vector<std::int64_t>{9});
}

TEST(Fork, AStormOfForksWhileWritingMixesNothing) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the thread sanitizer does not support forks of threaded programs";
#endif
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> written{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&] {
      for (std::int64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
        if (WriteNumber(table, n) == WriteStatus::kWritten) ++written;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 1000; ++k) {
        if (WriteNumber(table, -5) != WriteStatus::kOff) _exit(1);
      }
      _exit(0);
    }
    ASSERT_EQ(EndOf(child), 0);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  Reader reader = OpenReader(arena->fd());
  for (const std::int64_t n : ReadInts(&reader, "test.fork", 1)) ASSERT_GE(n, 0);
  EXPECT_EQ(testing::FindTable(&reader, "test.fork").counters.written, written.load());
}

void WriteForEver(int fd) {
  ArenaOptions options;
  options.file = ScopedFd(fd);
  Result<std::unique_ptr<Arena>> arena = Arena::Create(std::move(options));
  if (!arena.ok()) _exit(1);
  Result<Table*> table = (*arena)->AddTable(Numbers());
  if (!table.ok()) _exit(2);
  std::thread other([&] {
    for (std::int64_t n = 1'000'000'000;; ++n) WriteNumber(*table, n);
  });
  for (std::int64_t n = 0;; ++n) WriteNumber(*table, n);
}

TEST(Fork, AWriterKilledAtAnyMomentLeavesAReadableRing) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the thread sanitizer does not support threads after a fork";
#endif
  for (int round = 0; round < 20; ++round) {
    Result<ScopedFd> file = MakeMemoryFile();
    ASSERT_TRUE(file.ok());
    const pid_t child = fork();
    if (child == 0) WriteForEver(dup(file->get()));
    // Until there is something to be read, and a little longer each time.
    const Deadline deadline = Deadline::AfterNs(20'000'000'000);
    std::vector<std::int64_t> values;
    while (values.empty() && !deadline.passed()) {
      Result<Reader> reader = Reader::Open(ScopedFd(dup(file->get())));
      if (reader.ok() && !reader->Tables().empty()) values = ReadInts(&*reader, "test.fork", 1);
    }
    usleep(round * 300);
    kill(child, SIGKILL);
    EXPECT_EQ(EndOf(child), 128 + SIGKILL);
    ASSERT_FALSE(values.empty());
    Reader reader = OpenReader(file->get());
    EXPECT_EQ(reader.pid(), child);
    Scan scan = reader.StartScan(testing::FindTable(&reader, "test.fork"), {.columns = {1, 2}});
    std::uint64_t rows = 0;
    for (Batch batch; scan.Next(&batch); rows += batch.rows()) {
      for (std::size_t i = 0; i < batch.rows(); ++i) {
        ASSERT_EQ(batch.Int64s(1)[i], batch.Int64s(0)[i] * batch.Int64s(0)[i]);
      }
    }
    EXPECT_GT(rows, 0U);
  }
}

TEST(Fork, ASignalHandlerMayWriteInTheMiddleOfAWrite) {
  auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers());
  std::atomic<std::uint64_t> in_handler{0};
  static Table* handlers_table = nullptr;
  static std::atomic<std::uint64_t>* count = nullptr;
  handlers_table = table;
  count = &in_handler;
  // A handler that writes while the interrupted thread is in the middle of a write.
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {
    if (WriteNumber(handlers_table, -2) == WriteStatus::kWritten) ++*count;
  };
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> stop{false};
  std::uint64_t written = 0;
  std::thread writer([&] {
    for (std::int64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
      if (WriteNumber(table, n) == WriteStatus::kWritten) ++written;
    }
  });
  for (int i = 0; i < 2000; ++i) pthread_kill(writer.native_handle(), SIGUSR1);
  stop = true;
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
  Reader reader = OpenReader(arena->fd());
  const TableInfo info = testing::FindTable(&reader, "test.fork");
  EXPECT_GT(in_handler.load(), 0U);
  EXPECT_EQ(info.counters.written, written + in_handler.load());
  EXPECT_EQ(info.counters.dropped, 0U);
}

}  // namespace
}  // namespace probing::ring
