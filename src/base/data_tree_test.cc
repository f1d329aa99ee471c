#include "base/data_tree.h"

#include <gtest/gtest.h>

namespace probing {
namespace {

using Kind = DataTree::Kind;
using namespace std::string_view_literals;

TEST(DataTree, ReadsAPickleOfPlainData) {
  // pickle.dumps({"a": [1, -2, 300, 2**40, None, True, 1.5], "b": ("x", "x")}, 2)
  const std::string_view bytes =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01N\x88G?"
      "\xf8\x00\x00\x00\x00\x00\x00"
      "eX\x01\x00\x00\x00"
      "bq\x03X\x01\x00\x00\x00xq\x04h\x04\x86q\x05u."sv;
  const Result<DataTree> tree = ReadPickle(bytes);
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  const DataTree::Value list = tree->root().Get("a");
  ASSERT_EQ(list.size(), 7U);
  EXPECT_EQ(list.at(0).Int(), 1);
  EXPECT_EQ(list.at(1).Int(), -2);
  EXPECT_EQ(list.at(2).Int(), 300);
  EXPECT_EQ(list.at(3).Int(), std::int64_t{1} << 40);
  EXPECT_EQ(list.at(4).kind(), Kind::kNone);
  EXPECT_TRUE(list.at(5).True());
  EXPECT_EQ(list.at(6).Double(), 1.5);
  EXPECT_EQ(tree->root().Get("b").at(1).Text(), "x");
  EXPECT_EQ(tree->root().Get("c").kind(), Kind::kNone);
  EXPECT_EQ(tree->root().Get("c").Get("d").at(3).Text(), "") << "what is not there has nothing in it";
}

TEST(DataTree, RefusesWhatWouldRunCode) {
  for (const std::string_view bytes :
       {"cos\nsystem\n(X\x02\x00\x00\x00idtR."sv, "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."sv,
        "}b."sv, "Pid\n."sv, "(ios\nsystem\n."sv}) {
    EXPECT_FALSE(ReadPickle(bytes).ok());
  }
  EXPECT_NE(ReadPickle("cos\nsystem\n.").error().message.find("opcode 'c'"), std::string::npos);
}

TEST(DataTree, SurvivesPicklesThatAreCutOrLie) {
  for (const std::string_view bytes :
       {""sv, "."sv, "X\xff\xff\xff\xff"sv, "X\xff\xff\xff\xff."sv, "e."sv, "]e."sv, "(e."sv, "u."sv,
        "}(Nu."sv, "Na."sv, "h\x00."sv, "q\x00."sv, "Nr\xff\xff\xff\xff."sv, "\x87."sv, "N\x85"sv,
        "\x8a\xff."sv, "\x80\x09N."sv, "K\x01(NNu."sv}) {
    EXPECT_FALSE(ReadPickle(bytes).ok()) << bytes;
  }
  EXPECT_TRUE(ReadPickle("]q\x00h\x00"
                         "a."sv)
                  .ok())
      << "a list may contain itself";
}

TEST(DataTree, BoundsWhatItKeeps) {
  std::string bytes = "]q";
  bytes += '\0';
  for (int i = 0; i < 1000; ++i) bytes += "Na";
  EXPECT_TRUE(ReadPickle(bytes + ".").ok());
  EXPECT_FALSE(ReadPickle(bytes + ".", 500).ok());
}

TEST(DataTree, ReadsJson) {
  const Result<DataTree> tree = ReadJson(R"( {"a": [1, -2.5, "x\n\u0100", true, null], "b": {}} )");
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->root().Get("a").at(0).Int(), 1);
  EXPECT_EQ(tree->root().Get("a").at(1).Double(), -2.5);
  EXPECT_EQ(tree->root().Get("a").at(2).Text(), "x\n\xc4\x80");
  EXPECT_TRUE(tree->root().Get("a").at(3).True());
  for (const std::string_view bad :
       {""sv, "{"sv, "[1,"sv, "{\"a\" 1}"sv, "\"\\u12"sv, "tru"sv, "1 2"sv, "\"\\"sv})
    EXPECT_FALSE(ReadJson(bad).ok()) << bad;
  EXPECT_FALSE(ReadJson(std::string(100000, '[')).ok()) << "it does not recurse for ever";
}

}  // namespace
}  // namespace probing
