#include "cpython/line_table.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cpython/offsets.h"

namespace probing::cpython {
namespace {

using Table = std::vector<std::uint8_t>;

struct Range {
  int start, end, line;
};

void ExpectLines(LineTableFormat format, const Table& table, int first_line,
                 const std::vector<Range>& ranges) {
  for (const Range& range : ranges) {
    for (int position = range.start; position < range.end; position += 2) {
      EXPECT_EQ(FindLine(format, table, first_line, position), range.line) << "at " << position;
    }
  }
}

// The three tables are what Python made of one function with calls over several lines, a loop,
// try/except/finally and a comprehension; the ranges are what dis and co_lines() say about it.

TEST(LineTable, LnotabOfPython38) {
  const Table table = {0x00, 0x02, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0xff,
                       0x02, 0xfe, 0x04, 0x06, 0x08, 0x01, 0x04, 0x01, 0x08, 0x01,
                       0x0e, 0x01, 0x0e, 0x02, 0x08, 0x01, 0x06, 0x01, 0x02, 0xff};
  ExpectLines(LineTableFormat::kLnotab, table, 1,
              {{0, 2, 3},
               {2, 4, 4},
               {4, 6, 5},
               {6, 8, 6},
               {8, 10, 5},
               {10, 14, 3},
               {14, 22, 9},
               {22, 26, 10},
               {26, 34, 11},
               {34, 48, 12},
               {48, 62, 13},
               {62, 70, 15},
               {70, 76, 16},
               {76, 78, 17},
               {78, 84, 16}});
}

// Of a function of Python 3.5.10 with 300 empty lines before its last one: lines only grow there.
TEST(LineTable, LnotabOfPython35) {
  const Table table = {0, 2, 3, 1, 7, 1, 19, 1, 9, 1, 14, 1, 3, 1, 23, 1, 13, 1, 5, 255, 0, 64};
  const auto line = [&](int position) { return FindLine(LineTableFormat::kOldLnotab, table, 2, position); };
  EXPECT_EQ(line(0), 4);
  EXPECT_EQ(line(3), 5);
  EXPECT_EQ(line(28), 6);
  EXPECT_EQ(line(91), 12);
  EXPECT_EQ(line(96), 331);
}

TEST(LineTable, LineTableOfPython310) {
  const Table table = {0x02, 0x02, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0xff, 0x04, 0xfe,
                       0x08, 0x06, 0x04, 0x01, 0x08, 0x01, 0x0c, 0x01, 0x08, 0x01, 0x02, 0xff,
                       0x02, 0x80, 0x0c, 0x03, 0x06, 0x01, 0x02, 0x01, 0x06, 0xff};
  ExpectLines(LineTableFormat::kLineTable, table, 1,
              {{0, 2, 3},
               {2, 4, 4},
               {4, 6, 5},
               {6, 8, 6},
               {8, 10, 5},
               {10, 14, 3},
               {14, 22, 9},
               {22, 26, 10},
               {26, 34, 11},
               {34, 46, 12},
               {46, 54, 13},
               {54, 56, 12},
               {56, 58, 0},
               {58, 70, 15},
               {70, 76, 16},
               {76, 78, 17},
               {78, 84, 16}});
}

TEST(LineTable, LocationsOfPython312) {
  const Table table = {0x80, 0x00, 0xe4, 0x08, 0x09, 0xd8, 0x08, 0x09, 0xdc, 0x08, 0x09, 0xd8, 0x0c, 0x0d,
                       0xf3, 0x03, 0x02, 0x09, 0x0a, 0xf3, 0x05, 0x05, 0x09, 0x06, 0x80, 0x41, 0xf0, 0x0c,
                       0x00, 0x0e, 0x0f, 0xf2, 0x00, 0x06, 0x05, 0x12, 0x88, 0x01, 0xf0, 0x02, 0x05, 0x09,
                       0x12, 0xd8, 0x10, 0x11, 0x88, 0x41, 0xf0, 0x08, 0x00, 0x11, 0x12, 0x89, 0x41, 0xf0,
                       0x0d, 0x06, 0x05, 0x12, 0xf0, 0x10, 0x00, 0x14, 0x15, 0xf6, 0x03, 0x03, 0x0c, 0x06,
                       0xd8, 0x0e, 0x0f, 0xd9, 0x0b, 0x0c, 0xf2, 0x03, 0x00, 0x09, 0x0a, 0xf2, 0x03, 0x03,
                       0x0c, 0x06, 0xf0, 0x00, 0x03, 0x05, 0x06, 0xf8, 0xf4, 0x09, 0x00, 0x10, 0x11, 0xf2,
                       0x00, 0x01, 0x09, 0x12, 0xd8, 0x10, 0x11, 0x8a, 0x41, 0xf0, 0x03, 0x01, 0x09, 0x12,
                       0xfb, 0xf0, 0x06, 0x00, 0x11, 0x12, 0x89, 0x41, 0xfc, 0xf2, 0x02, 0x03, 0x0c, 0x06};
  ExpectLines(LineTableFormat::kLocations, table, 1,
              {{0, 2, 1},     {2, 12, 3},     {12, 14, 4},    {14, 24, 5},    {24, 26, 6},   {26, 34, 5},
               {34, 44, 3},   {44, 54, 9},    {54, 56, 10},   {56, 60, 11},   {60, 66, 15},  {66, 68, 9},
               {68, 70, 17},  {70, 84, 16},   {84, 86, 17},   {86, 90, 18},   {90, 96, 17},  {96, 104, 16},
               {104, 106, 0}, {106, 122, 12}, {122, 130, 13}, {130, 132, 12}, {132, 140, 0}, {140, 146, 15},
               {146, 156, 0}, {156, 162, 16}});
}

// One function with calls over several lines, a loop, try/except/finally and a comprehension, as each version
// compiled it; read by the format that is known for that version, so that no Python has to be installed.
struct Recorded {
  int minor;
  Table table;
  std::vector<Range> ranges;
};

const std::vector<Recorded>& RecordedTables() {
  static const std::vector<Recorded> tables = {
      {6,
       {0x00, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x08, 0x01, 0x0e, 0x01,
        0x04, 0x01, 0x0c, 0x01, 0x0e, 0x01, 0x0e, 0x02, 0x0a, 0x01, 0x06, 0x02},
       {{0, 2, 2},
        {2, 4, 3},
        {4, 6, 4},
        {6, 14, 5},
        {14, 28, 6},
        {28, 32, 7},
        {32, 44, 8},
        {44, 58, 9},
        {58, 72, 10},
        {72, 82, 12},
        {82, 88, 13},
        {88, 100, 15}}},
      {7,
       {0x00, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x08, 0x01, 0x0e, 0x01,
        0x04, 0x01, 0x0c, 0x01, 0x0e, 0x01, 0x0e, 0x02, 0x0a, 0x01, 0x06, 0x02},
       {{0, 2, 2},
        {2, 4, 3},
        {4, 6, 4},
        {6, 14, 5},
        {14, 28, 6},
        {28, 32, 7},
        {32, 44, 8},
        {44, 58, 9},
        {58, 72, 10},
        {72, 82, 12},
        {82, 88, 13},
        {88, 100, 15}}},
      {8,
       {0x00, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0xff, 0x02, 0xfe, 0x04, 0x04, 0x0c,
        0x01, 0x04, 0x01, 0x0c, 0x01, 0x0e, 0x01, 0x0e, 0x02, 0x08, 0x01, 0x06, 0x02, 0x06, 0xfe},
       {{0, 2, 2},
        {2, 4, 3},
        {4, 6, 4},
        {6, 8, 5},
        {8, 10, 4},
        {10, 14, 2},
        {14, 26, 6},
        {26, 30, 7},
        {30, 42, 8},
        {42, 56, 9},
        {56, 70, 10},
        {70, 78, 12},
        {78, 84, 13},
        {84, 90, 15},
        {90, 96, 13}}},
      {9,
       {0x00, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0xff, 0x02, 0xfe, 0x04, 0x04, 0x0c,
        0x01, 0x04, 0x01, 0x0c, 0x01, 0x0c, 0x01, 0x0c, 0x02, 0x0e, 0x01, 0x06, 0x02, 0x06, 0xfe},
       {{0, 2, 2},
        {2, 4, 3},
        {4, 6, 4},
        {6, 8, 5},
        {8, 10, 4},
        {10, 14, 2},
        {14, 26, 6},
        {26, 30, 7},
        {30, 42, 8},
        {42, 54, 9},
        {54, 66, 10},
        {66, 80, 12},
        {80, 86, 13},
        {86, 92, 15},
        {92, 98, 13}}},
      {10,
       {0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0x01, 0x02, 0xff, 0x04, 0xfe, 0x0c, 0x04, 0x04, 0x01, 0x0c,
        0x01, 0x0c, 0x01, 0x08, 0x01, 0x02, 0xff, 0x02, 0x80, 0x0c, 0x03, 0x06, 0x01, 0x06, 0x02, 0x06, 0xfe},
       {{0, 2, 2},
        {2, 4, 3},
        {4, 6, 4},
        {6, 8, 5},
        {8, 10, 4},
        {10, 14, 2},
        {14, 26, 6},
        {26, 30, 7},
        {30, 42, 8},
        {42, 54, 9},
        {54, 62, 10},
        {62, 64, 9},
        {64, 66, 0},
        {66, 78, 12},
        {78, 84, 13},
        {84, 90, 15},
        {90, 96, 13}}},
      {11,
       {0x80, 0x00, 0xdd, 0x08, 0x0b, 0xd8, 0x08, 0x09, 0xdd, 0x08, 0x0b, 0xd8, 0x0c, 0x0f, 0xf1, 0x03,
        0x01, 0x09, 0x11, 0xf4, 0x00, 0x01, 0x09, 0x11, 0xf1, 0x05, 0x03, 0x09, 0x12, 0xf4, 0x00, 0x03,
        0x09, 0x12, 0x80, 0x41, 0xf5, 0x08, 0x00, 0x0e, 0x13, 0x90, 0x31, 0x89, 0x58, 0x8c, 0x58, 0xf0,
        0x00, 0x06, 0x05, 0x12, 0xf0, 0x00, 0x06, 0x05, 0x12, 0x88, 0x01, 0xf0, 0x02, 0x05, 0x09, 0x12,
        0xd8, 0x0c, 0x0d, 0x90, 0x11, 0x89, 0x46, 0x88, 0x41, 0x88, 0x41, 0xf8},
       {{0, 2, 1},
        {2, 14, 2},
        {14, 16, 3},
        {16, 28, 4},
        {28, 30, 5},
        {30, 44, 4},
        {44, 60, 2},
        {60, 94, 6},
        {94, 96, 7},
        {96, 108, 8},
        {108, 110, 0}}},
  };
  return tables;
}

TEST(LineTable, OfEveryVersionIsReadByTheFormatOfThatVersion) {
  for (const Recorded& recorded : RecordedTables()) {
    const auto offsets = KnownOffsets({3, recorded.minor, 0});
    ASSERT_TRUE(offsets.ok()) << recorded.minor;
    SCOPED_TRACE("Python 3." + std::to_string(recorded.minor));
    ExpectLines(offsets->line_table_format, recorded.table, 1, recorded.ranges);
  }
}

// What offsetof() says in the headers of each version: where a code object has its lines and a frame its
// position.
TEST(LineTable, IsWhereEveryVersionHasIt) {
  struct Place {
    int minor;
    std::uint32_t line_table, first_line, instruction, index_unit;
  };
  for (const Place& place : std::initializer_list<Place>{{6, 112, 36, 120, 1},
                                                         {7, 112, 36, 104, 1},
                                                         {8, 120, 40, 104, 1},
                                                         {9, 120, 40, 104, 1},
                                                         {10, 120, 40, 96, 2},
                                                         {11, 136, 72, 56, 0},
                                                         {12, 136, 68, 56, 0}}) {
    const auto offsets = KnownOffsets({3, place.minor, 0});
    ASSERT_TRUE(offsets.ok());
    SCOPED_TRACE("Python 3." + std::to_string(place.minor));
    EXPECT_EQ(offsets->code.line_table, place.line_table);
    EXPECT_EQ(offsets->code.first_line, place.first_line);
    EXPECT_EQ(offsets->frame.instruction, place.instruction);
    EXPECT_EQ(offsets->instruction_index_unit, place.index_unit);
  }
}

TEST(LineTable, AFrameThatJustStartsIsAtTheFirstLine) {
  for (const auto format :
       {LineTableFormat::kLnotab, LineTableFormat::kLineTable, LineTableFormat::kLocations}) {
    EXPECT_EQ(FindLine(format, {}, 17, -1), 17);
    EXPECT_EQ(FindLine(format, {}, 17, -2), 17);
  }
}

TEST(LineTable, LongJumpsOfLnotabAreSummedUp) {
  EXPECT_EQ(FindLine(LineTableFormat::kLnotab, Table{0, 127, 0, 127, 2, 0x80, 0, 0xff}, 1, 0), 255);
  EXPECT_EQ(FindLine(LineTableFormat::kLnotab, Table{0, 127, 0, 127, 2, 0x80, 0, 0xff}, 1, 2), 126);
}

TEST(LineTable, RandomTablesGiveSomeLineAndNoCrash) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    Table table(random() % 64);
    for (std::uint8_t& byte : table) byte = static_cast<std::uint8_t>(random());
    const auto format = static_cast<LineTableFormat>(random() % 3);
    const int first_line = static_cast<int>(random());
    EXPECT_GE(FindLine(format, table, first_line, static_cast<std::int64_t>(random()) - 1000), 0);
  }
}

}  // namespace
}  // namespace probing::cpython
