#include "cpython/text.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

template <typename Character>
std::string Convert(const std::vector<Character>& characters) {
  return Utf8FromCharacters(std::as_bytes(std::span(characters)), sizeof(Character));
}

TEST(Text, EveryWidthBecomesUtf8) {
  EXPECT_EQ(Convert<std::uint8_t>({'a', 0x7f, 0xfc}), "a\x7f\u00fc");
  EXPECT_EQ(Convert<std::uint16_t>({'a', 0x0444, 0x5909, 0xffff}), "a\u0444\u5909\uffff");
  EXPECT_EQ(Convert<std::uint32_t>({0x1f4e6, 0x10ffff, 'z'}), "\U0001f4e6\U0010ffffz");
}

TEST(Text, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(Convert<std::uint16_t>({0xdc80, 'a'}), "\ufffda");
  EXPECT_EQ(Convert<std::uint32_t>({0x110000, 0xffffffff}), "\ufffd\ufffd");
}

struct FakeStr {
  std::int64_t length;
  std::uint32_t width;
  bool compact = true;
  bool ascii = false;
};

class ReadText : public testing::Test {
 protected:
  RemoteAddress Put(const FakeStr& str, std::string_view data) {
    const RemoteAddress at = memory_.Allocate(512);
    const std::uint32_t state = (str.width | (str.compact ? 8U : 0U) | (str.ascii ? 16U : 0U)) << 2;
    memory_.Write(at + offsets_.unicode.length, str.length);
    memory_.Write(at + offsets_.unicode.state, state);
    memory_.Write(at + (str.ascii ? offsets_.unicode.ascii_data : offsets_.unicode.other_data), data);
    return at;
  }

  FakeMemory memory_{4096};
  Offsets offsets_;
};

TEST_F(ReadText, AsciiAndWider) {
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, Put({5, 1, true, true}, "hello"), 100), "hello");
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, Put({2, 1}, "a\xfc"), 100), "a\u00fc");
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, Put({1, 2}, "\x44\x04"), 100), "\u0444");
}

TEST_F(ReadText, ClassesMadeOfStrHaveTheirCharactersElsewhere) {
  const RemoteAddress characters = memory_.Allocate(16);
  memory_.Write(characters, "hello");
  const RemoteAddress text = Put({5, 1, false, true}, "");
  memory_.Write(text + offsets_.unicode.other_data, characters);
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, text, 100), "hello");
}

TEST_F(ReadText, LongOnesAreCut) {
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, Put({5, 1, true, true}, "hello"), 2), "he");
  EXPECT_EQ(*ReadUnicode(memory_, offsets_, Put({INT64_MAX, 1, true, true}, "hello"), 5), "hello");
}

TEST_F(ReadText, WhatIsNoStrIsAnError) {
  EXPECT_FALSE(ReadUnicode(memory_, offsets_, Put({5, 3}, "hello"), 100).ok());
  EXPECT_FALSE(ReadUnicode(memory_, offsets_, Put({5, 1, false}, "hello"), 100).ok());
  EXPECT_FALSE(ReadUnicode(memory_, offsets_, Put({-1, 1, true, true}, "hello"), 100).ok());
  EXPECT_FALSE(ReadUnicode(memory_, offsets_, {0}, 100).ok());
}

TEST_F(ReadText, BytesWithAHugeSizeAreAnError) {
  const RemoteAddress at = memory_.Allocate(64);
  memory_.Write(at + offsets_.bytes.size, std::int64_t{3});
  memory_.Write(at + offsets_.bytes.data, "abc");
  EXPECT_EQ(*ReadBytes(memory_, offsets_, at, 3), (std::vector<std::uint8_t>{'a', 'b', 'c'}));
  EXPECT_FALSE(ReadBytes(memory_, offsets_, at, 2).ok());
  memory_.Write(at + offsets_.bytes.size, std::int64_t{-1});
  EXPECT_FALSE(ReadBytes(memory_, offsets_, at, 1 << 20).ok());
}

}  // namespace
}  // namespace probing::cpython
