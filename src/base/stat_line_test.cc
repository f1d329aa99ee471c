#include "base/stat_line.h"

#include <gtest/gtest.h>

#include <string>

namespace probing {
namespace {

TEST(StatLine, AnyNameMayComeBeforeTheFields) {
  for (const std::string name : {"python", "a b", "x) R (y", ") ", "()"}) {
    const std::string text = "17 (" + name + ") S 1 2 -1 4\n";
    const StatLine line(text);
    EXPECT_EQ(line.name(), name);
    EXPECT_EQ(line.state(), 'S') << name;
    EXPECT_EQ(line.Field(4), 1U) << name;
    EXPECT_EQ(line.Field(5), 2U) << name;
    EXPECT_EQ(line.Field(6), std::nullopt) << "negative";
    EXPECT_EQ(line.Field(7), 4U) << name;
    EXPECT_EQ(line.Field(8), std::nullopt) << "behind the end";
  }
}

TEST(StatLine, NothingIsKnownOfALineThatIsCut) {
  for (const std::string_view text : {"", "17", "17 (py", "17 (python)", "17 (python) ", ") S 1"}) {
    const StatLine line(text);
    EXPECT_EQ(line.Field(4), std::nullopt) << text;
    EXPECT_TRUE(line.state() == '?' || line.state() == 'S') << text;
  }
  EXPECT_EQ(StatLine("17 (python)").state(), '?');
}

}  // namespace
}  // namespace probing
