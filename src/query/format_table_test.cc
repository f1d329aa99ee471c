// Tables for people fit the terminal, whatever is in them.
#include <gtest/gtest.h>

#include <sstream>

#include "query/display_width.h"
#include "query/format.h"
#include "query/sample_test.h"

namespace probing::query {
namespace {

std::vector<std::string> Lines(std::string_view sql, int width) {
  std::string text;
  const auto writer =
      MakeFormatWriter(SampleEngine(), {Format::kTable, width}, [&](std::string_view bytes) -> Result<void> {
        text += bytes;
        return {};
      });
  const Outcome outcome = SampleEngine().Execute(sql, SampleTargets(), {}, *writer);
  EXPECT_FALSE(outcome.error) << outcome.error->message;
  EXPECT_TRUE(writer->End().ok());
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(FormatTable, NothingInACellSteersTheTerminal) {
  const std::vector<std::string> lines =
      Lines("SELECT chr(27) || '[2J' || chr(8238) || chr(10) || 'x' AS a", 80);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[2].find(R"(\x1B[2J\u202E\nx)"), std::string::npos) << lines[2];
}

TEST(FormatTable, NoLineIsWiderThanTheTerminal) {
  for (const char* sql :
       {"SELECT * FROM python.torch_trace", "SELECT * FROM system.process",
        "SELECT 1 AS a, repeat('x', 500) AS b",
        "SELECT repeat('漢字', 50) AS wide, 9223372036854775807 AS big, 'é' AS e, NULL AS n",
        "SELECT 9223372036854775807 AS the_largest_number_that_there_is_in_sixty_four_bits_of_memory"}) {
    for (const int width : {10, 20, 40, 79, 80, 120, 200}) {
      const std::vector<std::string> lines = Lines(sql, width);
      for (std::size_t i = 0; i + 1 < lines.size(); ++i)  // the last one counts rows
        EXPECT_LE(DisplayWidth(lines[i]), static_cast<std::size_t>(width)) << sql << "\n" << lines[i];
    }
  }
}

TEST(FormatTable, NumbersAreWholeAndTextsAreCut) {
  const std::vector<std::string> lines =
      Lines("SELECT 'some text that is long' AS t, 1234567890123 AS n, NULL AS nothing", 40);
  EXPECT_EQ(lines[2], " some text t… │ 1234567890123 │    NULL");
  EXPECT_EQ(lines[3], "(1 row)");
}

TEST(FormatTable, ColumnsThatDoNotFitAreLeftOutInTheMiddle) {
  const std::vector<std::string> lines = Lines(
      "SELECT 1111111111 AS first, 2222222222 AS second, 3333333333 AS third, 4444444444 AS fourth,"
      " 5555555555 AS last",
      45);
  EXPECT_EQ(lines[0], "      first │     second │ … │       last");
  EXPECT_EQ(lines.back(), "(1 row, 3 of 5 columns fit)");
}

TEST(FormatTable, WithoutATerminalNothingIsCut) {
  const std::vector<std::string> lines = Lines("SELECT repeat('x', 300) AS b", 0);
  EXPECT_EQ(lines[2], " " + std::string(300, 'x'));
}

}  // namespace
}  // namespace probing::query
