// Writers at full speed, readers beside them: every row exactly as written, none twice, every
// missing one counted. PROBING_STRESS_SECONDS makes it longer.
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/clock.h"
#include "ring/testing.h"

namespace probing::ring {
namespace {

constexpr int kWriters = 4;
constexpr int kReaders = 2;

std::int64_t StressNs() {
  const char* seconds = std::getenv("PROBING_STRESS_SECONDS");
  return seconds == nullptr ? 1'000'000'000 : static_cast<std::int64_t>(std::atof(seconds) * 1e9);
}

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t mixed = (a * 0x9e3779b97f4a7c15) ^ (b + 0x7f4a7c15);
  mixed ^= mixed >> 31;
  return mixed * 0xbf58476d1ce4e5b9;
}

TableOptions Checked() {
  return {.name = "test.stress",
          .columns = {{"time", ColumnType::kTimestamp},
                      {"writer", ColumnType::kInt64},
                      {"n", ColumnType::kInt64},
                      {"sum", ColumnType::kInt64},
                      {"real", ColumnType::kDouble},
                      {"even", ColumnType::kBool},
                      {"name", ColumnType::kString},
                      {"long", ColumnType::kString}},
          .rows = 5000};
}

std::string NameOf(std::uint64_t n) { return "name-" + std::to_string(n % 1000); }
// Every 16th row has a text that goes to the heap, of a length that depends on the row.
std::string LongOf(std::uint64_t writer, std::uint64_t n) {
  return std::string(65 + Mix(writer, n) % 3000, static_cast<char>('a' + n % 26));
}

void WriteRows(Table* table, std::uint64_t writer, const std::atomic<bool>* stop, std::uint64_t* attempts,
               std::uint64_t* dropped) {
  for (std::uint64_t n = 0; !stop->load(std::memory_order_relaxed); ++n) {
    RowWriter row(*table);
    const std::string name = NameOf(n);
    row.SetInt(1, static_cast<std::int64_t>(writer));
    row.SetInt(2, static_cast<std::int64_t>(n));
    row.SetInt(3, static_cast<std::int64_t>(Mix(writer, n)));
    row.SetDouble(4, static_cast<double>(n) / 2);
    if (n % 7 != 0) row.SetBool(5, n % 2 == 0);
    row.SetString(6, name);
    std::string text;
    if (n % 16 == 0) row.SetString(7, text = LongOf(writer, n));
    const WriteStatus status = row.Commit();
    ++*attempts;
    if (status == WriteStatus::kDropped) ++*dropped;
  }
}

struct Seen {
  std::uint64_t rows = 0;
  std::uint64_t wrong = 0;
  std::uint64_t again = 0;
  std::uint64_t bad_cells = 0;
  std::uint64_t overtaken = 0;
};

void CheckBatch(const Batch& batch, std::map<std::uint64_t, std::array<std::int64_t, kWriters>>* last,
                Seen* seen) {
  auto& lane =
      last->try_emplace(batch.lane_id(), std::array<std::int64_t, kWriters>{-1, -1, -1, -1}).first->second;
  for (std::size_t i = 0; i < batch.rows(); ++i) {
    ++seen->rows;
    const auto writer = static_cast<std::uint64_t>(batch.Int64s(0)[i]);
    const auto n = static_cast<std::uint64_t>(batch.Int64s(1)[i]);
    bool good = writer < kWriters && static_cast<std::uint64_t>(batch.Int64s(2)[i]) == Mix(writer, n) &&
                batch.Doubles(3)[i] == static_cast<double>(n) / 2 && batch.IsNull(4, i) == (n % 7 == 0) &&
                (n % 7 == 0 || batch.Bools(4)[i] == (n % 2 == 0)) && batch.Texts(5)[i] == NameOf(n) &&
                batch.IsNull(6, i) == (n % 16 != 0);
    if (good && n % 16 == 0) good = batch.Texts(6)[i] == LongOf(writer, n);
    if (!good) {
      ++seen->wrong;
      continue;
    }
    // In one lane the rows of one writer come in order, so "not larger" means "again".
    if (static_cast<std::int64_t>(n) <= lane[writer]) ++seen->again;
    lane[writer] = static_cast<std::int64_t>(n);
  }
}

void ReadRows(int fd, const std::atomic<bool>* stop, Cursor* cursor, Seen* seen) {
  Reader reader = testing::OpenReader(fd);
  std::map<std::uint64_t, std::array<std::int64_t, kWriters>> last;
  for (bool ending = false; !ending;) {
    ending = stop->load();  // once more after the writers have stopped
    Scan scan = reader.StartScan(testing::FindTable(&reader, "test.stress"),
                                 {.columns = {1, 2, 3, 4, 5, 6, 7}, .cursor = cursor});
    for (Batch batch; scan.Next(&batch);) CheckBatch(batch, &last, seen);
    seen->bad_cells += scan.stats().bad_cells;
    seen->overtaken += scan.stats().overtaken;
  }
}

TEST(Stress, EveryRowReadIsAsWrittenNoneTwiceAndTheMissingAreCounted) {
  const auto arena = testing::MakeArena();
  Table* table = testing::MakeTable(arena.get(), Checked());
  std::atomic<bool> stop_writers{false};
  std::atomic<bool> stop_readers{false};
  std::array<std::uint64_t, kWriters> attempts{};
  std::array<std::uint64_t, kWriters> dropped{};
  std::array<Cursor, kReaders> cursors;
  std::array<Seen, kReaders> seen{};
  std::vector<std::thread> writers;
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < kReaders; ++i) {
    readers.emplace_back(ReadRows, arena->fd(), &stop_readers, &cursors[i], &seen[i]);
  }
  for (std::size_t i = 0; i < kWriters; ++i) {
    writers.emplace_back(WriteRows, table, i, &stop_writers, &attempts[i], &dropped[i]);
  }
  const Deadline deadline = Deadline::AfterNs(StressNs());
  while (!deadline.passed()) usleep(10'000);
  stop_writers = true;
  for (std::thread& thread : writers) thread.join();
  stop_readers = true;
  for (std::thread& thread : readers) thread.join();

  Reader reader = testing::OpenReader(arena->fd());
  const TableInfo info = testing::FindTable(&reader, "test.stress");
  std::uint64_t attempted = 0;
  std::uint64_t lost = 0;
  for (std::size_t i = 0; i < kWriters; ++i) {
    EXPECT_GT(attempts[i], 0U);
    attempted += attempts[i];
    lost += dropped[i];
  }
  EXPECT_EQ(info.counters.dropped, lost);
  EXPECT_EQ(info.counters.written + info.counters.dropped, attempted);
  for (std::size_t i = 0; i < kReaders; ++i) {
    EXPECT_EQ(seen[i].wrong, 0U);
    EXPECT_EQ(seen[i].again, 0U);
    EXPECT_EQ(seen[i].bad_cells, 0U);
    EXPECT_GT(seen[i].rows, 0U);
    EXPECT_EQ(seen[i].rows + cursors[i].missed, info.counters.written);
  }
  printf("written %zu, dropped %zu, lanes %u; read %zu and %zu, missed %zu and %zu, overtaken %zu and %zu\n",
         info.counters.written, info.counters.dropped, info.lanes, seen[0].rows, seen[1].rows,
         cursors[0].missed, cursors[1].missed, seen[0].overtaken, seen[1].overtaken);
}

}  // namespace
}  // namespace probing::ring
