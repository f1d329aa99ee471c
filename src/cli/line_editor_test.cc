#include "cli/line_editor.h"

#include <gtest/gtest.h>

namespace probing::cli {
namespace {

using Event = LineEditor::Event;

// An editor at an empty line.
LineEditor Fresh() {
  LineEditor editor;
  editor.Begin(">>> ", "... ");
  return editor;
}

TEST(LineEditor, EnterAcceptsWhatWasTyped) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("1 + 1"), Event::kNone);
  EXPECT_EQ(editor.Feed("\r"), Event::kAccept);
  EXPECT_EQ(editor.text(), "1 + 1");
}

TEST(LineEditor, WhatFollowsEnterStaysForTheNextLine) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("a\rb\r"), Event::kAccept);
  EXPECT_EQ(editor.text(), "a");
  editor.Begin(">>> ", "... ");
  EXPECT_EQ(editor.Feed(""), Event::kAccept);
  EXPECT_EQ(editor.text(), "b");
}

TEST(LineEditor, ArrowsAndControlKeysMoveAndErase) {
  LineEditor editor = Fresh();
  (void)editor.Feed("abcd\x1b[D\x1b[D\x7f");  // left, left, backspace
  EXPECT_EQ(editor.text(), "acd");
  (void)editor.Feed("\x01X\x05Y");  // ^A, ^E
  EXPECT_EQ(editor.text(), "XacdY");
  (void)editor.Feed("\x15\x19\x19");  // ^U cuts, ^Y puts it back
  EXPECT_EQ(editor.text(), "XacdYXacdY");
}

TEST(LineEditor, ASequenceMayComeInPieces) {
  LineEditor editor = Fresh();
  (void)editor.Feed("ab\x1b");
  (void)editor.Feed("[");
  (void)editor.Feed("Dx");
  EXPECT_EQ(editor.text(), "axb");
}

TEST(LineEditor, CharactersOfSeveralBytesAreErasedWhole) {
  LineEditor editor = Fresh();
  (void)editor.Feed("xž漢\x7f");
  EXPECT_EQ(editor.text(), "xž");
  (void)editor.Feed("\x7f");
  EXPECT_EQ(editor.text(), "x");
}

TEST(LineEditor, PastedLinesAreOneBlock) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("\x1b[200~if x:\r\ty = 1\r\x1b[20"), Event::kNone);
  EXPECT_EQ(editor.Feed("1~"), Event::kNone);
  EXPECT_EQ(editor.text(), "if x:\n\ty = 1\n");
}

TEST(LineEditor, ABlockGoesOnIndented) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("if x:\r"), Event::kAccept);
  editor.AddLine();
  (void)editor.Feed("y\r");
  EXPECT_EQ(editor.text(), "if x:\n    y");
}

TEST(LineEditor, HistoryIsWalkedAndWhatWasTypedComesBack) {
  LineEditor editor = Fresh();
  editor.Remember("one");
  editor.Remember("two");
  editor.Begin(">>> ", "... ");
  (void)editor.Feed("new\x1b[A");
  EXPECT_EQ(editor.text(), "two");
  (void)editor.Feed("\x1b[A\x1b[A");
  EXPECT_EQ(editor.text(), "one");
  (void)editor.Feed("\x1b[B\x1b[B");
  EXPECT_EQ(editor.text(), "new");
}

TEST(LineEditor, TheHistoryIsSearchedBackwards) {
  LineEditor editor = Fresh();
  for (const char* entry : {"loss.item()", "model", "loss.mean()"}) editor.Remember(entry);
  editor.Begin(">>> ", "... ");
  (void)editor.Feed("\x12loss");
  EXPECT_EQ(editor.text(), "loss.mean()");
  (void)editor.Feed("\x12");
  EXPECT_EQ(editor.text(), "loss.item()");
  EXPECT_EQ(editor.Feed("\r"), Event::kAccept);
}

TEST(LineEditor, TabCompletesAWordAndIndentsAnEmptyLine) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("\t"), Event::kNone);
  EXPECT_EQ(editor.text(), "    ");
  EXPECT_EQ(editor.Feed("mod\t"), Event::kComplete);
  editor.ReplaceBefore(3, "model");
  EXPECT_EQ(editor.text(), "    model");
}

TEST(LineEditor, ControlKeysEndAndInterrupt) {
  LineEditor editor = Fresh();
  EXPECT_EQ(editor.Feed("\x04"), Event::kEnd);
  EXPECT_EQ(editor.Feed("ab\x03"), Event::kInterrupt);
}

TEST(LineEditor, TheDrawingPutsTheCursorWhereItIs) {
  LineEditor editor = Fresh();
  (void)editor.Feed("abc\x1b[D");
  EXPECT_EQ(editor.Render(80), "\r\x1b[J>>> abc\r\x1b[6C");
}

TEST(LineEditor, WideCharactersTakeTwoColumns) { EXPECT_EQ(DisplayColumns("aé漢🐍"), 6); }

}  // namespace
}  // namespace probing::cli
