#include "cpython/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace probing::cpython {
namespace {

std::string Integer(const std::vector<std::uint32_t>& digits, bool negative = false) {
  return FormatInteger(digits, negative);
}

TEST(Literal, IntegersOfAnySize) {
  EXPECT_EQ(Integer({}), "0");
  EXPECT_EQ(Integer({0}), "0");
  EXPECT_EQ(Integer({42}, true), "-42");
  EXPECT_EQ(Integer({0, 1}), "1073741824");
  EXPECT_EQ(Integer({0, 0, 16}), "18446744073709551616");
  EXPECT_EQ(Integer({1'000'000'000}), "1000000000");  // a chunk of zeros
}

TEST(Literal, FloatsReadBackAsTheSameNumber) {
  EXPECT_EQ(FormatFloat(0), "0.0");
  EXPECT_EQ(FormatFloat(-0.0), "-0.0");
  EXPECT_EQ(FormatFloat(0.1), "0.1");
  EXPECT_EQ(FormatFloat(3), "3.0");
  EXPECT_EQ(FormatFloat(0.0001), "0.0001");
  EXPECT_EQ(FormatFloat(0.00001), "1e-05");
  EXPECT_EQ(FormatFloat(1e16), "1e+16");
  EXPECT_EQ(FormatFloat(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(FormatFloat(-INFINITY), "-inf");
  EXPECT_EQ(FormatFloat(NAN), "nan");
}

TEST(Literal, TextsAreQuotedLikePython) {
  EXPECT_EQ(QuoteText("", 80), "''");
  EXPECT_EQ(QuoteText("it's", 80), "\"it's\"");
  EXPECT_EQ(QuoteText("'\"", 80), "'\\'\"'");
  EXPECT_EQ(QuoteText("a\\b\n\t", 80), "'a\\\\b\\n\\t'");
  EXPECT_EQ(QuoteText("größe 変数 📦", 80), "'größe 変数 📦'");
}

TEST(Literal, WhatCouldSpoilATerminalIsEscaped) {
  EXPECT_EQ(QuoteText("\x1b[2J", 80), "'\\x1b[2J'");
  EXPECT_EQ(QuoteText("\u009b", 80), "'\\x9b'");
  EXPECT_EQ(QuoteText("\u202e", 80), "'\\u202e'");
}

TEST(Literal, LongTextsAreCutAtCharacters) {
  EXPECT_EQ(QuoteText("äöü", 2), "'äö'…");
  EXPECT_EQ(QuoteText("äöü", 3), "'äöü'");
}

TEST(Literal, BrokenUtf8DoesNotReadTooFar) { EXPECT_TRUE(QuoteText("a\xe0", 80).starts_with("'a")); }

TEST(Literal, Bytes) {
  const std::vector<std::uint8_t> bytes = {'a', '\'', 0, 0xff};
  EXPECT_EQ(QuoteBytes(bytes, 80), "b\"a'\\x00\\xff\"");
  EXPECT_EQ(QuoteBytes(bytes, 1), "b\"a\"…");
}

TEST(Literal, FloatsOfOtherSizesAreTheShortestTextThatIsNearest) {
  EXPECT_EQ(FormatFloat32(0.1F), "0.1");
  EXPECT_EQ(FormatFloat32(1e20F), "1e+20");
  EXPECT_EQ(FormatFloat32(-0.0F), "-0.0");
  EXPECT_EQ(FormatFloat16(0x34cd), "0.3");
  EXPECT_EQ(FormatFloat16(0xbe00), "-1.5");
  EXPECT_EQ(FormatFloat16(0x0001), "6e-08") << "the least";
  EXPECT_EQ(FormatFloat16(0x0400), "6.104e-05") << "below it the neighbours are as close as above";
  EXPECT_EQ(FormatFloat16(0x7bff), "65500.0") << "the greatest, 65504, which is nearest to this";
  EXPECT_EQ(FormatFloat16(0x8000), "-0.0");
  EXPECT_EQ(FormatFloat16(0xfc00), "-inf");
  EXPECT_EQ(FormatFloat16(0x7c01), "nan");
  EXPECT_EQ(FormatBrainFloat16(0x3f80), "1.0");
  EXPECT_EQ(FormatBrainFloat16(0x3dcd), "0.1");
  EXPECT_EQ(FormatLongDouble(0.1L), "0.1");
  EXPECT_EQ(FormatLongDouble(-123456.75L), "-123456.75");
  EXPECT_EQ(FormatLongDouble(0.0L), "0.0");
  EXPECT_EQ(FormatLongDouble(1e22L), "1e+22");
}

TEST(Literal, ComplexNumbersHaveNoNeedlessZeros) {
  EXPECT_EQ(FormatComplex("1.0", "2.0"), "1+2j");
  EXPECT_EQ(FormatComplex("0.0", "2.5"), "2.5j");
  EXPECT_EQ(FormatComplex("-0.0", "-1.0"), "-0-1j");
  EXPECT_EQ(FormatComplex("nan", "inf"), "nan+infj");
}

}  // namespace
}  // namespace probing::cpython
