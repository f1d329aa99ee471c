// Every type, exactly as written.
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "ring/testing.h"

namespace probing::ring {
namespace {

using testing::MakeArena;
using testing::MakeTable;
using testing::OpenReader;
using testing::ReadInts;
using testing::ReadTexts;

TableOptions AllTypes() {
  return {.name = "test.types",
          .columns = {{"time", ColumnType::kTimestamp},
                      {"int", ColumnType::kInt64},
                      {"double", ColumnType::kDouble},
                      {"bool", ColumnType::kBool},
                      {"string", ColumnType::kString},
                      {"bytes", ColumnType::kBytes},
                      {"until", ColumnType::kTimestamp}}};
}

TEST(Values, ComeBackExactlyInEveryType) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  RowWriter row(*table);
  row.SetTime(1'700'000'000'123'456'789);
  row.SetInt(1, std::numeric_limits<std::int64_t>::max());
  row.SetDouble(2, -0.1);
  row.SetBool(3, true);
  row.SetString(4, "grüße 🚀");
  row.SetBytes(5, std::string_view("\0\xff\0", 3));
  row.SetTimestamp(6, std::numeric_limits<std::int64_t>::min());
  ASSERT_EQ(row.Commit(), WriteStatus::kWritten);

  Reader reader = OpenReader(arena->fd());
  const TableInfo info = testing::FindTable(&reader, "test.types");
  EXPECT_EQ(info.columns, AllTypes().columns);
  Scan scan = reader.StartScan(info, {.columns = {0, 1, 2, 3, 4, 5, 6}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  ASSERT_EQ(batch.rows(), 1U);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_FALSE(batch.IsNull(i, 0)) << i;
  EXPECT_EQ(batch.Int64s(0)[0], 1'700'000'000'123'456'789);
  EXPECT_EQ(batch.Int64s(1)[0], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(batch.Doubles(2)[0], -0.1);
  EXPECT_EQ(batch.Bools(3)[0], 1);
  EXPECT_EQ(batch.Texts(4)[0], "grüße 🚀");
  EXPECT_EQ(batch.Texts(5)[0], std::string_view("\0\xff\0", 3));
  EXPECT_EQ(batch.Int64s(6)[0], std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(scan.Next(&batch));
}

TEST(Values, TextThatWasLookedUpBeforeIsAsGoodAsText) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  const std::string too_long(kMaxInterned + 1, 'x');
  const Cell found = table->Intern(4, "layers.0"), itself = table->Intern(4, too_long);
  EXPECT_EQ(found.kind(), Cell::Kind::kInterned);
  for (const Cell& cell : {found, Cell::String("layers.0"), itself, found}) {
    const Cell cells[] = {Cell::Null(), Cell::Null(), Cell::Null(), Cell::Null(), cell};
    ASSERT_EQ(table->Write(cells, std::size(cells)), WriteStatus::kWritten);
  }
  const Cell in_a_number[] = {Cell::Null(), found};
  EXPECT_EQ(table->Write(in_a_number, 2), WriteStatus::kRefused);
  Reader reader = OpenReader(arena->fd());
  const std::vector<std::string> expected{"layers.0", "layers.0", too_long, "layers.0"};
  EXPECT_EQ(ReadTexts(&reader, "test.types", 4), expected);
}

TEST(Values, NullIsNullAndCellsThatAreNotSetAreNull) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  ASSERT_EQ(RowWriter(*table).Commit(), WriteStatus::kWritten);
  const Cell cells[] = {Cell::Null(), Cell::Int(5)};
  ASSERT_EQ(table->Write(cells, 2), WriteStatus::kWritten);
  ASSERT_EQ(table->Write(nullptr, 0), WriteStatus::kWritten);

  Reader reader = OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.types"), {.columns = {0, 1, 2, 3, 4, 5, 6}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  ASSERT_EQ(batch.rows(), 3U);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_FALSE(batch.IsNull(0, row));
    for (std::size_t i = 1; i < 7; ++i) EXPECT_EQ(batch.IsNull(i, row), !(row == 1 && i == 1)) << row << i;
  }
  EXPECT_EQ(batch.Int64s(1)[1], 5);
}

TEST(Values, ARowWithoutTimeIsStampedWithTheTimeOfWriting) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  const std::int64_t before = WallNs();
  ASSERT_EQ(RowWriter(*table).Commit(), WriteStatus::kWritten);
  const std::int64_t after = WallNs();
  Reader reader = OpenReader(arena->fd());
  const std::vector<std::int64_t> times = ReadInts(&reader, "test.types", 0);
  ASSERT_EQ(times.size(), 1U);
  EXPECT_GE(times[0], before);
  EXPECT_LE(times[0], after);
}

TEST(Values, NanInfinityAndNegativeZeroKeepTheirBits) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  const double values[] = {std::nan("7"), -std::numeric_limits<double>::infinity(), -0.0,
                           std::numeric_limits<double>::denorm_min()};
  for (const double value : values) {
    RowWriter row(*table);
    row.SetDouble(2, value);
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  }
  Reader reader = OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.types"), {.columns = {2}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  ASSERT_EQ(batch.rows(), 4U);
  EXPECT_EQ(std::memcmp(batch.Doubles(0).data(), values, sizeof(values)), 0);
}

TEST(Values, TextsOfEveryLengthComeBack) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  std::vector<std::string> texts;
  for (const std::size_t length : {0U, 1U, 7U, 8U, 9U, 63U, 64U, 65U, 100U, 4096U, 65'536U, 1U << 20}) {
    texts.emplace_back(length, static_cast<char>('a' + texts.size()));
  }
  texts.push_back("🎉");
  texts.push_back(texts[3]);
  for (const std::string& text : texts) {
    RowWriter row(*table);
    row.SetString(4, text);
    const std::string bytes = text + "b";
    row.SetBytes(5, bytes);
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten) << text.size();
  }
  Reader reader = OpenReader(arena->fd());
  EXPECT_TRUE(ReadTexts(&reader, "test.types", 4) == texts);  // too long to be printed
  for (std::string& text : texts) text += "b";
  EXPECT_TRUE(ReadTexts(&reader, "test.types", 5) == texts);
}

TEST(Values, TheSameShortTextIsKeptOnce) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  for (int i = 0; i < 10; ++i) {
    const std::string text = "forward";
    RowWriter row(*table);
    row.SetString(4, text);
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  }
  Reader reader = OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.types"), {.columns = {4}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  for (const std::string_view text : batch.Texts(0)) EXPECT_EQ(text.data(), batch.Texts(0)[0].data());
}

TEST(Values, IntegersServeAsDoublesAndBoolsAsIntegers) {
  const auto arena = MakeArena();
  Table* table = MakeTable(arena.get(), AllTypes());
  RowWriter row(*table);
  row.SetBool(1, true);
  row.SetInt(2, 3);
  ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  Reader reader = OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.types"), {.columns = {1, 2}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  EXPECT_EQ(batch.Int64s(0)[0], 1);
  EXPECT_EQ(batch.Doubles(1)[0], 3.0);
}

TEST(Values, OfAWrongTypeOrTooLongRefuseTheRowAndAreCounted) {
  const auto arena = MakeArena(256U << 20);
  Table* table = MakeTable(arena.get(), AllTypes());
  RowWriter wrong(*table);
  wrong.SetString(1, "one");
  EXPECT_EQ(wrong.Commit(), WriteStatus::kRefused);
  wrong.SetDouble(1, 1.5);
  EXPECT_EQ(wrong.Commit(), WriteStatus::kRefused);
  const std::string longest(kMaxValueBytes, 'x');
  RowWriter row(*table);
  row.SetString(4, longest);
  EXPECT_EQ(row.Commit(), WriteStatus::kWritten);
  row.SetString(4, longest + "y");
  EXPECT_EQ(row.Commit(), WriteStatus::kRefused);
  // Never looked at, so there is no need to have 5 GB.
  row.SetString(4, std::string_view("x", 5'000'000'000));
  EXPECT_EQ(row.Commit(), WriteStatus::kRefused);

  Reader reader = OpenReader(arena->fd());
  EXPECT_TRUE(ReadTexts(&reader, "test.types", 4) == std::vector<std::string>{longest});
  const TableCounters counters = testing::FindTable(&reader, "test.types").counters;
  EXPECT_EQ(counters.written, 1U);
  EXPECT_EQ(counters.refused, 4U);
  EXPECT_EQ(counters.dropped, 0U);
}

}  // namespace
}  // namespace probing::ring
