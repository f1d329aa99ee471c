#include "cpython/object_reader.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"
#include "cpython/locals.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

// A tiny Python 3.12 without a program: only objects, made by hand.
class FakeObjects : public testing::Test {
 protected:
  FakeObjects() {
    location_.version = {3, 12, 1};
    location_.offsets = *KnownOffsets(location_.version);
    limited_.Allow(10'000, 1 << 20);
  }

  RemoteAddress MakeType(std::string_view name, std::uint64_t flags = 0) {
    const RemoteAddress text = memory_.Allocate(name.size() + 1);
    memory_.Write(text, name);
    const RemoteAddress type = memory_.Allocate(400);
    memory_.Write(type + 24, text);
    memory_.Write(type + 168, flags);
    return type;
  }
  RemoteAddress MakeObject(RemoteAddress type, const std::vector<std::uint64_t>& fields) {
    const RemoteAddress at = memory_.Allocate(16 + 8 * fields.size() + 8);
    memory_.Write(at + 8, type);
    for (std::size_t i = 0; i < fields.size(); ++i) memory_.Write(at + 16 + 8 * i, fields[i]);
    return at;
  }
  RemoteAddress MakeInt(std::uint32_t value) { return MakeObject(int_, {1 << 3, value}); }
  RemoteAddress MakeList(const std::vector<RemoteAddress>& items, std::int64_t size) {
    const RemoteAddress array = memory_.Allocate(8 * items.size());
    for (std::size_t i = 0; i < items.size(); ++i) memory_.Write(array + 8 * i, items[i]);
    return MakeObject(list_, {static_cast<std::uint64_t>(size), array.address});
  }

  std::string Text(RemoteAddress object) { return ObjectReader(limited_, location_).Describe(object).text; }

  FakeMemory memory_{1 << 20};
  LimitedMemory limited_{memory_};
  Location location_;
  RemoteAddress int_ = MakeType("int");
  RemoteAddress list_ = MakeType("list");
};

TEST_F(FakeObjects, IntegersHaveTheirSignInTheTag) {
  EXPECT_EQ(Text(MakeObject(int_, {1 << 3, 7})), "7");
  EXPECT_EQ(Text(MakeObject(int_, {1 << 3 | 2, 7})), "-7");
  EXPECT_EQ(Text(MakeObject(int_, {0 << 3 | 1, 0})), "0");
  EXPECT_EQ(Text(MakeObject(int_, {9 << 3, 0, 0, 0, 0, 1})), "<int, 241 bits>");
  EXPECT_EQ(Text(MakeObject(int_, {UINT64_MAX - 7, 0})), "<unreadable>");
}

TEST_F(FakeObjects, AClassNamedIntIsNotTheBuiltInOne) {
  const RemoteAddress object = MakeObject(MakeType("int", 1 << 9), {8, 7});
  EXPECT_TRUE(Text(object).starts_with("<int at 0x"));
}

TEST_F(FakeObjects, ListsAreCut) {
  EXPECT_EQ(Text(MakeList({}, 0)), "[]");
  EXPECT_EQ(Text(MakeList({MakeInt(1), MakeInt(2)}, 2)), "[1, 2]");
  const std::vector<RemoteAddress> many(1000, MakeInt(5));
  EXPECT_EQ(Text(MakeList(many, 1000)), "[5, 5, 5, 5, 5, 5, 5, 5, …]");
}

TEST_F(FakeObjects, AListInItselfEnds) {
  const RemoteAddress list = MakeList({{}}, 1);
  memory_.Write(RemoteAddress{*memory_.ReadValue((list + 24).As<std::uint64_t>())}, list);
  EXPECT_EQ(Text(list), "[[[…]]]");
}

TEST_F(FakeObjects, WhatMakesNoSenseIsUnreadable) {
  EXPECT_EQ(Text({}), "<unreadable>");
  EXPECT_EQ(Text({0x7fffffffffff}), "<unreadable>");
  EXPECT_EQ(Text(MakeObject(MakeType(""), {})), "<unreadable>");
  EXPECT_EQ(Text(MakeObject(MakeType("a\x1b[2J"), {})), "<unreadable>");
  EXPECT_EQ(Text(MakeList({}, -1)), "<unreadable>");
  EXPECT_EQ(Text(MakeList({{0x10}}, 1)), "[<unreadable>]");
  EXPECT_EQ(Text(MakeObject(list_, {INT64_MAX, 0x10})), "<unreadable>");
}

TEST_F(FakeObjects, BeyondTheLimitNothingIsRead) {
  const RemoteAddress number = MakeInt(1);
  limited_.Allow(0, 1000);
  EXPECT_EQ(Text(number), "…");
}

TEST_F(FakeObjects, AnArrayOfNumpyHasAShapeAndAType) {
  const RemoteAddress shape = memory_.Allocate(16);
  memory_.Write(shape, std::int64_t{3});
  memory_.Write(shape + 8, std::int64_t{4});
  const RemoteAddress descr = MakeObject({}, {0, std::uint64_t{12} << 32});
  const RemoteAddress type = MakeType("numpy.ndarray");
  EXPECT_EQ(Text(MakeObject(type, {0, 2, shape.address, 0, 0, descr.address})), "ndarray(3, 4) float64");
  EXPECT_TRUE(Text(MakeObject(type, {0, 1000, shape.address, 0, 0, descr.address}))
                  .starts_with("<numpy.ndarray at 0x"));
}

// torch: 48 bytes, then the pointer back (in older releases after another one), sizes and the rest.
class FakeTensors : public FakeObjects {
 protected:
  FakeTensors() { memory_.Write(type_ + 256, MakeType("torch._C.TensorBase")); }

  // `words_before`: of the Python object, in front of the pointer to the C++ one.
  std::string TextOf(std::size_t words_before, std::uint64_t back, std::int64_t elements,
                     std::uint64_t type_and_device = 0x01'01'01'000fU) {
    std::vector<std::uint64_t> fields(words_before + 1);
    const RemoteAddress tensor = memory_.Allocate(256);
    fields[words_before] = tensor.address;
    const RemoteAddress object = MakeObject(type_, fields);
    memory_.Write(tensor + back, object);
    memory_.Write(tensor + back + 8, std::int64_t{2});
    memory_.Write(tensor + back + 16, std::int64_t{3});
    memory_.Write(tensor + back + 24, std::int64_t{4});
    memory_.Write(tensor + back + 104, elements);
    memory_.Write(tensor + back + 112, type_and_device);
    return Text(object);
  }

  RemoteAddress type_ = MakeType("torch.Tensor");
};

TEST_F(FakeTensors, ATensorHasAShapeATypeAndADevice) {
  EXPECT_EQ(TextOf(0, 48, 12), "Tensor(3, 4) bfloat16 cuda:1");
  EXPECT_EQ(TextOf(1, 56, 12), "Tensor(3, 4) bfloat16 cuda:1") << "as up to torch 2.9";
  EXPECT_EQ(TextOf(0, 48, 12, 0x01'ff'00'0006U), "Tensor(3, 4) float32 cpu");
}

TEST_F(FakeTensors, WhatDoesNotProveItselfIsNotGuessed) {
  EXPECT_TRUE(TextOf(0, 40, 12).starts_with("<torch.Tensor at 0x")) << "nothing points back";
  EXPECT_TRUE(TextOf(0, 48, 13).starts_with("<torch.Tensor at 0x")) << "3 * 4 is not 13";
  EXPECT_TRUE(TextOf(0, 48, 12, 0x01'01'01'ffffU).starts_with("<torch.Tensor at 0x")) << "no such type";
  EXPECT_TRUE(TextOf(0, 48, 12, 0x01'01'77'0006U).starts_with("<torch.Tensor at 0x")) << "no such device";
  EXPECT_TRUE(TextOf(0, 48, 12, 0x00'01'01'0006U).starts_with("<torch.Tensor at 0x")) << "no device";
}

TEST(HostileObjects, NoiseEndsAndDoesNotCrash) {
  std::mt19937 random(1);
  FakeMemory memory(1 << 16);
  for (const int minor : {6, 10, 11, 12}) {
    Location location;
    location.version = {3, minor, 0};
    location.offsets = *KnownOffsets(location.version);
    for (int round = 0; round < 50; ++round) {
      if (round % 2 == 0) memory.FillWithNoise(random);
      if (round % 2 == 1) memory.FillWithPointers(random);
      // Names of types that are readable, so that the readers behind them are reached.
      for (std::uint64_t at = 0; at < (1 << 16); at += 64) {
        constexpr std::string_view kNames[] = {"int",  "dict", "set",   "tuple",  "numpy.ndarray",
                                               "list", "str",  "bytes", "module", "torch._C.TensorBase"};
        const std::string_view name = kNames[random() % std::size(kNames)];
        memory.Write({FakeMemory::kBase + at}, name);
        memory.Write(RemoteAddress{FakeMemory::kBase + at + name.size()}, '\0');
      }
      LocalsReader reader(memory, location);
      reader.Begin();
      for (int i = 0; i < 20; ++i) {
        RawFrame frame;
        frame.address = {FakeMemory::kBase + random() % (1 << 16)};
        frame.code = {FakeMemory::kBase + random() % (1 << 16)};
        EXPECT_LE(reader.Read(frame).size(), 256U);
      }
      LimitedMemory limited(memory);
      ObjectReader objects(limited, location);
      for (std::uint64_t at = 0; at < (1 << 16); at += 128) {
        limited.Allow(4000, 1 << 20);
        EXPECT_LE(objects.Describe({FakeMemory::kBase + at}).text.size(), 20'000U);
      }
    }
  }
}

}  // namespace
}  // namespace probing::cpython
