#include "base/visible.h"

#include <gtest/gtest.h>

namespace probing {
namespace {

TEST(Visible, ShowsWhatTerminalsWouldObey) {
  EXPECT_EQ(Visible("train"), "train");
  EXPECT_EQ(Visible("\x1b]0;owned\x07"), "\\x1B]0;owned\\x07");
  EXPECT_EQ(Visible("a\nb\rc\td\x7f"), "a\\nb\\rc\\td\\x7F");
  EXPECT_EQ(Visible("\xc2\x9b[m"), "\\x9B[m");
  EXPECT_EQ(Visible("\xe2\x80\xae"
                    "drow"),
            "\\u202Edrow");
  EXPECT_EQ(Visible("\xe2\x81\xa6"), "\\u2066");
  EXPECT_EQ(Visible(std::string_view("\0", 1)), "\\x00");
}

TEST(Visible, LeavesEveryScriptAlone) {
  for (const char* text : {"größe", "模型", "\xc2\xa0", "…", "\xe2\x80\x94", "\xff\xc2"})
    EXPECT_EQ(Visible(text), text);
}

TEST(TerminalSafe, KeepsLinesAndColoursAndNothingElse) {
  EXPECT_EQ(TerminalSafe("\x1b[1mbold\x1b[0m\n\tx\r\n"), "\x1b[1mbold\x1b[0m\n\tx\r\n");
  EXPECT_EQ(TerminalSafe("\x1b[2J\x1b[31;1m\x1b[6n\rx"), "\\x1B[2J\x1b[31;1m\\x1B[6n\\rx");
  EXPECT_EQ(TerminalSafe("\x1b"), "\\x1B");
  EXPECT_EQ(TerminalSafe("\x1b[31"), "\\x1B[31");
}

}  // namespace
}  // namespace probing
