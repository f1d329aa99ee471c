#include "cpython/line_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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
