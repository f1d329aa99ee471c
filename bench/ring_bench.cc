// What a row costs to write and a column to read, next to a plain copy of the same bytes.
//
//   cmake --build build/release --target ring_bench && build/release/bin/ring_bench [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ring/arena.h"
#include "ring/reader.h"

namespace probing::ring {
namespace {

// The best round counts, and rounds are short: the machine has other things to do.
int rounds = 200;
constexpr int kRowsPerRound = 20'000;

double NowNs() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::unique_ptr<Arena> MakeArena() {
  ArenaOptions options;
  options.max_memory = 1U << 30;
  Result<std::unique_ptr<Arena>> arena = Arena::Create(std::move(options));
  if (!arena.ok()) {
    fprintf(stderr, "%s\n", arena.error().message.c_str());
    std::exit(1);
  }
  return std::move(*arena);
}

Table* MakeTable(Arena* arena, const char* name, std::uint64_t rows) {
  return *arena->AddTable({.name = name,
                           .columns = {{"time", ColumnType::kTimestamp},
                                       {"step", ColumnType::kInt64},
                                       {"loss", ColumnType::kDouble},
                                       {"duration", ColumnType::kInt64},
                                       {"ok", ColumnType::kBool},
                                       {"name", ColumnType::kString}},
                           .rows = rows});
}

enum class Stamp { kClock, kGiven };
enum class Text { kNone, kShort, kLong };

void WriteRows(Table* table, int rows, Stamp stamp, Text text) {
  const std::string_view names[] = {"forward", "backward", "optimizer.step", "dataloader.next"};
  const std::string long_text(200, 'x');
  for (int i = 0; i < rows; ++i) {
    RowWriter row(*table);
    if (stamp == Stamp::kGiven) row.SetTime(i);
    row.SetInt(1, i);
    row.SetDouble(2, i * 0.5);
    row.SetInt(3, i ^ 0x55);
    row.SetBool(4, (i & 1) != 0);
    if (text == Text::kShort) row.SetString(5, names[i & 3]);
    if (text == Text::kLong) row.SetString(5, long_text);
    row.Commit();
  }
}

void BenchWrites(const char* what, int threads, Stamp stamp, Text text) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), "bench.write", 10'000);
  double best = 1e18;
  for (int round = 0; round <= rounds; ++round) {
    const double begin = NowNs();
    std::vector<std::thread> writers;
    for (int i = 1; i < threads; ++i) writers.emplace_back(WriteRows, table, kRowsPerRound, stamp, text);
    WriteRows(table, kRowsPerRound, stamp, text);
    for (std::thread& writer : writers) writer.join();
    best = std::min(best, (NowNs() - begin) / kRowsPerRound);
  }
  Result<Reader> reader = Reader::Open(ScopedFd(dup(arena->fd())));
  const TableInfo info = reader->Tables()[0];
  printf("%-44s %6.1f ns a row and thread %7.1f M rows/s  lanes %u  dropped %llu\n", what, best,
         threads * 1e3 / best, info.lanes, static_cast<unsigned long long>(info.counters.dropped));
}

void BenchFirstLap() {
  double best = 1e18;
  for (int round = 0; round <= rounds; ++round) {
    const auto arena = MakeArena();
    Table* table = MakeTable(arena.get(), "bench.first", 10'000);
    const double begin = NowNs();
    WriteRows(table, 10'000, Stamp::kClock, Text::kShort);
    best = std::min(best, (NowNs() - begin) / 10'000);
  }
  printf("%-44s %6.1f ns a row\n", "write, the first 10,000 rows of a table", best);
}

double BestScanNs(Reader* reader, const TableInfo& info, const std::vector<std::uint32_t>& columns,
                  std::uint64_t* rows) {
  double best = 1e18;
  for (int round = 0; round <= rounds; ++round) {
    const double begin = NowNs();
    Scan scan = reader->StartScan(info, {.columns = columns});
    *rows = 0;
    for (Batch batch; scan.Next(&batch);) *rows += batch.rows();
    best = std::min(best, NowNs() - begin);
  }
  return best;
}

void BenchScans(std::uint64_t table_rows) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), "bench.scan", table_rows);
  WriteRows(table, static_cast<int>(table_rows), Stamp::kClock, Text::kShort);
  Result<Reader> reader = Reader::Open(ScopedFd(dup(arena->fd())));
  const TableInfo info = reader->Tables()[0];
  std::uint64_t rows = 0;
  const struct {
    const char* what;
    std::vector<std::uint32_t> columns;
  } cases[] = {{"time, int, double, int", {0, 1, 2, 3}},
               {"int", {1}},
               {"string", {5}},
               {"all six", {0, 1, 2, 3, 4, 5}}};
  for (const auto& one : cases) {
    const double ns = BestScanNs(&*reader, info, one.columns, &rows);
    printf("scan %9llu rows: %-22s %8.1f M values/s %10.1f us\n", static_cast<unsigned long long>(rows),
           one.what, static_cast<double>(rows * one.columns.size()) * 1e3 / ns, ns / 1e3);
  }
  const std::size_t bytes = rows * 4 * 8;
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(16384);
  double best = 1e18;
  for (int round = 0; round <= rounds; ++round) {
    const double begin = NowNs();
    for (std::size_t at = 0; at + to.size() <= bytes; at += to.size()) {
      std::memcpy(to.data(), from.data() + at, to.size());
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best = std::min(best, NowNs() - begin);
  }
  printf("limit: memcpy of the same four columns      %8.1f M values/s %10.1f us\n",
         static_cast<double>(rows * 4) * 1e3 / best, best / 1e3);
}

void BenchLimits() {
  double best_copy = 1e18;
  double best_clock = 1e18;
  std::vector<char> to(41 * 4096);
  char row[41] = {};
  for (int round = 0; round <= rounds; ++round) {
    double begin = NowNs();
    for (int i = 0; i < kRowsPerRound; ++i) {
      std::memcpy(to.data() + (i & 4095) * 41, row, sizeof(row));
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best_copy = std::min(best_copy, (NowNs() - begin) / kRowsPerRound);
    begin = NowNs();
    for (int i = 0; i < kRowsPerRound; ++i) {
      timespec now{};
      clock_gettime(CLOCK_REALTIME, &now);
      asm volatile("" : : "r"(&now) : "memory");
    }
    best_clock = std::min(best_clock, (NowNs() - begin) / kRowsPerRound);
  }
  printf("%-44s %6.1f ns\n%-44s %6.1f ns\n", "limit: memcpy of the 41 bytes of a row", best_copy,
         "limit: clock_gettime(CLOCK_REALTIME)", best_clock);
}

void Run() {
  BenchLimits();
  BenchWrites("write, 1 thread, time given, no text", 1, Stamp::kGiven, Text::kNone);
  BenchWrites("write, 1 thread, clock, no text", 1, Stamp::kClock, Text::kNone);
  BenchWrites("write, 1 thread, clock, short text", 1, Stamp::kClock, Text::kShort);
  BenchWrites("write, 1 thread, clock, text of 200 bytes", 1, Stamp::kClock, Text::kLong);
  BenchWrites("write, 4 threads, clock, short text", 4, Stamp::kClock, Text::kShort);
  BenchFirstLap();
  BenchScans(10'000);
  if (rounds >= 200) BenchScans(1'000'000);
}

}  // namespace
}  // namespace probing::ring

int main(int count, char** arguments) {
  if (count > 1) probing::ring::rounds = std::atoi(arguments[1]);
  probing::ring::Run();
}
