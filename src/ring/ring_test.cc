// What is kept, what is overwritten, what is counted, and what a reader sees of it.
#include <numeric>
#include <thread>

#include "ring/testing.h"

namespace probing::ring {
namespace {

using testing::MakeArena;
using testing::MakeTable;
using testing::OpenReader;
using testing::ReadInts;
using testing::ReadTexts;

TableOptions Numbers(std::uint64_t rows) {
  return {
      .name = "test.numbers",
      .columns = {{"time", ColumnType::kTimestamp}, {"n", ColumnType::kInt64}, {"text", ColumnType::kString}},
      .rows = rows};
}

// Rows from..to-1; the time of row n is n µs.
void WriteNumbers(Table* table, std::int64_t from, std::int64_t to, std::string_view text = "") {
  for (std::int64_t n = from; n < to; ++n) {
    RowWriter row(*table);
    row.SetTime(n * 1000);
    row.SetInt(1, n);
    if (!text.empty()) row.SetString(2, text);
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  }
}

std::vector<std::int64_t> Range(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(to - from));
  std::iota(values.begin(), values.end(), from);
  return values;
}

TEST(Ring, KeepsAtLeastTheRowsOfItsLimitAndCountsTheOthersAsOverwritten) {
  for (const std::int64_t limit : {1, 64, 100, 10'000}) {
    const auto arena = MakeArena();
    Table* table = MakeTable(arena.get(), Numbers(limit));
    Reader reader = OpenReader(arena->fd());
    for (std::int64_t written = 0; written < 3 * limit + 200;) {
      const std::int64_t more = std::max<std::int64_t>(1, limit / 7);
      WriteNumbers(table, written, written + more);
      written += more;
      const std::vector<std::int64_t> values = ReadInts(&reader, "test.numbers", 1);
      const TableInfo info = testing::FindTable(&reader, "test.numbers");
      ASSERT_EQ(values, Range(static_cast<std::int64_t>(info.counters.overwritten), written));
      ASSERT_GE(values.size(), std::min<std::size_t>(written, limit));
      ASSERT_LE(values.size(), limit + 2 * BlockRowsFor(limit));
      ASSERT_EQ(info.counters.written, written);
      ASSERT_EQ(info.counters.dropped, 0U);
    }
  }
}

TEST(Ring, LeavesOutBlocksByTime) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(10'000));
  WriteNumbers(table, 0, 5120);
  Reader reader = OpenReader(arena->fd());
  ScanStats stats;
  const std::vector<std::int64_t> values =
      ReadInts(&reader, "test.numbers", 1, {.min_time_ns = 600'000, .max_time_ns = 1'100'000}, &stats);
  EXPECT_EQ(values, Range(512, 1536));  // whole blocks
  EXPECT_EQ(stats.blocks, 2U);
  EXPECT_EQ(stats.pruned, 8U);
  EXPECT_TRUE(ReadInts(&reader, "test.numbers", 1, {.min_time_ns = 5'120'000}).empty());
}

TEST(Ring, FindsRowsByTimeAlsoWhenTheClockWentBack) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(10'000));
  WriteNumbers(table, 900, 910);
  WriteNumbers(table, 10, 20);
  Reader reader = OpenReader(arena->fd());
  EXPECT_EQ(ReadInts(&reader, "test.numbers", 1, {.max_time_ns = 15'000}).size(), 20U);
  EXPECT_EQ(ReadInts(&reader, "test.numbers", 1, {.min_time_ns = 905'000}).size(), 20U);
}

TEST(Ring, ACursorSeesEveryRowOnceAndKnowsWhatItMissed) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(1000));
  Reader reader = OpenReader(arena->fd());
  Cursor cursor;
  std::int64_t written = 0;
  for (const std::int64_t more : {0, 1, 62, 1, 1, 70, 500, 999}) {
    WriteNumbers(table, written, written + more);
    EXPECT_EQ(ReadInts(&reader, "test.numbers", 1, {.cursor = &cursor}), Range(written, written + more));
    written += more;
  }
  EXPECT_EQ(cursor.missed, 0U);
  WriteNumbers(table, written, written + 5000);
  const std::vector<std::int64_t> rest = ReadInts(&reader, "test.numbers", 1, {.cursor = &cursor});
  EXPECT_GE(rest.size(), 1000U);
  EXPECT_EQ(cursor.missed, 5000 - rest.size());
  EXPECT_EQ(rest, Range(written + 5000 - static_cast<std::int64_t>(rest.size()), written + 5000));
}

TEST(Ring, ACursorInTheMiddleOfABlockShiftsBitsAndBools) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), {.name = "test.bools",
                                         .columns = {{"time", ColumnType::kTimestamp},
                                                     {"n", ColumnType::kInt64},
                                                     {"flag", ColumnType::kBool}}});
  Reader reader = OpenReader(arena->fd());
  Cursor cursor;
  std::size_t seen = 0;
  for (int n = 0; n < 300; ++n) {
    RowWriter row(*table);
    if (n % 3 != 0) row.SetInt(1, n);
    if (n % 5 != 0) row.SetBool(2, n % 2 == 0);
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
    if (n % 37 != 0) continue;
    Scan scan =
        reader.StartScan(testing::FindTable(&reader, "test.bools"), {.columns = {1, 2}, .cursor = &cursor});
    for (Batch batch; scan.Next(&batch);) {
      for (std::size_t i = 0; i < batch.rows(); ++i, ++seen) {
        ASSERT_EQ(batch.IsNull(0, i), seen % 3 == 0);
        ASSERT_EQ(batch.IsNull(1, i), seen % 5 == 0);
        ASSERT_TRUE(seen % 3 == 0 || batch.Int64s(0)[i] == static_cast<std::int64_t>(seen));
        ASSERT_TRUE(seen % 5 == 0 || batch.Bools(1)[i] == (seen % 2 == 0));
      }
    }
    ASSERT_EQ(seen, n + 1U);
  }
}

TEST(Ring, ChangesItsLimitWhileTheOldRowsStayUntilTheNewOnesNeedTheRoom) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(10'000));
  Reader reader = OpenReader(arena->fd());
  WriteNumbers(table, 0, 2000, "a text that is much too long to be kept in the dictionary of short ones");
  table->SetRows(100);
  WriteNumbers(table, 2000, 2050);
  EXPECT_EQ(ReadInts(&reader, "test.numbers", 1).size(), 2050U);
  EXPECT_EQ(testing::FindTable(&reader, "test.numbers").rows_limit, 100U);
  WriteNumbers(table, 2050, 2600);
  const std::vector<std::int64_t> values = ReadInts(&reader, "test.numbers", 1);
  EXPECT_GE(values.size(), 100U);
  EXPECT_LE(values.size(), 300U);
  const TableCounters counters = testing::FindTable(&reader, "test.numbers").counters;
  EXPECT_EQ(counters.written, 2600U);
  EXPECT_EQ(counters.overwritten, 2600 - values.size());

  table->SetRows(50'000);
  WriteNumbers(table, 2600, 40'000);
  EXPECT_GE(ReadInts(&reader, "test.numbers", 1).size(), 37'400U);
}

TEST(Ring, LongTextsPushOutTheOldestRowsWhenTheHeapIsFull) {
  const auto arena = MakeArena(2U << 20);
  Table* table = MakeTable(arena.get(), Numbers(10'000));
  Reader reader = OpenReader(arena->fd());
  std::string text(20'000, 'x');
  for (int n = 0; n < 300; ++n) {
    text[0] = static_cast<char>('a' + n % 26);
    WriteNumbers(table, n, n + 1, text);
    if (n % 10 != 0) continue;
    const std::vector<std::string> texts = ReadTexts(&reader, "test.numbers", 2);
    const TableCounters counters = testing::FindTable(&reader, "test.numbers").counters;
    ASSERT_FALSE(texts.empty());
    ASSERT_EQ(texts.size(), counters.written - counters.overwritten);
    ASSERT_TRUE(texts.back() == text);
    ASSERT_LE(arena->allocated_bytes(), 2U << 20);
  }
  EXPECT_GT(testing::FindTable(&reader, "test.numbers").counters.overwritten, 100U);
}

TEST(Ring, ManyDifferentNamesDoNotTakeTheDictionaryFromOtherColumns) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(20'000));
  Reader reader = OpenReader(arena->fd());
  for (int n = 0; n < 20'000; ++n) WriteNumbers(table, n, n + 1, "request-" + std::to_string(n));
  const std::vector<std::string> texts = ReadTexts(&reader, "test.numbers", 2);
  ASSERT_EQ(texts.size(), 20'000U);
  for (int n = 0; n < 20'000; ++n) ASSERT_EQ(texts[n], "request-" + std::to_string(n));

  Table* other = MakeTable(
      arena.get(),
      {.name = "test.other", .columns = {{"time", ColumnType::kTimestamp}, {"s", ColumnType::kString}}});
  for (int i = 0; i < 2; ++i) {
    RowWriter row(*other);
    row.SetString(1, "forward");
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  }
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.other"), {.columns = {1}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  EXPECT_EQ(batch.Texts(0)[0].data(), batch.Texts(0)[1].data());
}

TEST(Ring, SaysWhoWritesIt) {
  const auto arena = MakeArena();
  Reader reader = OpenReader(arena->fd());
  EXPECT_EQ(reader.pid(), getpid());
  EXPECT_GT(reader.start_ticks(), 0U);
  EXPECT_FALSE(reader.closed());
}

TEST(Ring, RefusesTablesThatMakeNoSense) {
  const auto arena = MakeArena();
  const Column time{"time", ColumnType::kTimestamp};
  const Column n{"n", ColumnType::kInt64};
  EXPECT_FALSE(arena->AddTable({.name = "", .columns = {time}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = std::string(128, 'x'), .columns = {time}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = "a\nb", .columns = {time}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = "a", .columns = {}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = "a", .columns = {n}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = "a", .columns = {time, n, n}}).ok());
  EXPECT_FALSE(arena->AddTable({.name = "a", .columns = {time}, .rows = 0}).ok());
  std::vector<Column> many = {time};
  for (int i = 0; i < 64; ++i) many.push_back({"c" + std::to_string(i), ColumnType::kInt64});
  EXPECT_FALSE(arena->AddTable({.name = "a", .columns = many}).ok());
  many.pop_back();
  const Result<Table*> table = arena->AddTable({.name = std::string(127, 'x'), .columns = many});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(*arena->AddTable({.name = std::string(127, 'x'), .columns = many}), *table);
  EXPECT_EQ(arena->FindTable(std::string(127, 'x')), *table);
  EXPECT_FALSE(arena->AddTable({.name = std::string(127, 'x'), .columns = {time}}).ok());
  EXPECT_EQ(arena->FindTable("a"), nullptr);
}

TEST(Ring, AClosedOneTakesNoRowsAndHasGivenItsMemoryBack) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), Numbers(10'000));
  WriteNumbers(table, 0, 10'000);
  const std::uint64_t before = arena->allocated_bytes();
  Reader reader = OpenReader(arena->fd());
  arena->Close();
  EXPECT_EQ(RowWriter(*table).Commit(), WriteStatus::kOff);
  EXPECT_LT(arena->allocated_bytes(), before - 100'000);
  EXPECT_TRUE(reader.closed());
  EXPECT_TRUE(ReadInts(&reader, "test.numbers", 1).empty());
}

}  // namespace
}  // namespace probing::ring
