#include "cpython/object_reader.h"

#include <gtest/gtest.h>

#include "cpython/fake_memory.h"
#include "cpython/locals.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::uint64_t kHeapType = 1 << 9;
constexpr std::uint64_t kTupleSubclass = 1 << 26;
constexpr std::uint64_t kExceptionSubclass = 1 << 30;

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

  // A class as a class statement makes it, of the type `base`.
  RemoteAddress MakeClass(std::string_view name, RemoteAddress base, std::uint64_t flags = 0) {
    const RemoteAddress type = MakeType(name, kHeapType | flags);
    memory_.Write(type + 256, base);
    return type;
  }
  RemoteAddress MakeStr(std::string_view text) {
    const RemoteAddress at = memory_.Allocate(41 + text.size());
    memory_.Write(at + 8, str_);
    memory_.Write(at + 16, std::uint64_t{text.size()});
    memory_.Write(at + 32, std::uint32_t{(1 | 8 | 16) << 2});
    memory_.Write(at + 40, text);
    return at;
  }
  RemoteAddress MakeTuple(RemoteAddress type, const std::vector<RemoteAddress>& items) {
    std::vector<std::uint64_t> fields{items.size()};
    for (const RemoteAddress item : items) fields.push_back(item.address);
    return MakeObject(type, fields);
  }
  // With room for four entries, whose keys are all str. `after`: fields behind those of a dict.
  RemoteAddress MakeDict(RemoteAddress type,
                         const std::vector<std::pair<RemoteAddress, RemoteAddress>>& items,
                         const std::vector<std::uint64_t>& after = {}) {
    const RemoteAddress keys = memory_.Allocate(32 + 8 + 16 * items.size());
    memory_.Write(keys + 9, std::uint8_t{3});   // 8 bytes of indices
    memory_.Write(keys + 10, std::uint8_t{1});  // no hashes
    memory_.Write(keys + 24, std::uint64_t{items.size()});
    for (std::size_t i = 0; i < items.size(); ++i) {
      memory_.Write(keys + 40 + 16 * i, items[i].first);
      memory_.Write(keys + 48 + 16 * i, items[i].second);
    }
    std::vector<std::uint64_t> fields{items.size(), 0, keys.address, 0};
    fields.insert(fields.end(), after.begin(), after.end());
    return MakeObject(type, fields);
  }

  std::string Text(RemoteAddress object) { return ObjectReader(limited_, location_).Describe(object).text; }

  FakeMemory memory_{1 << 20};
  LimitedMemory limited_{memory_};
  Location location_;
  RemoteAddress int_ = MakeType("int");
  RemoteAddress list_ = MakeType("list");
  RemoteAddress str_ = MakeType("str");
  RemoteAddress dict_ = MakeType("dict");
  RemoteAddress tuple_ = MakeType("tuple");
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
  EXPECT_EQ(Text(list), "[[...]]") << "as repr() says";
}

TEST_F(FakeObjects, AClassMadeOfABuiltInTypeHasItsValue) {
  const RemoteAddress whole = MakeClass("Whole", int_);
  EXPECT_EQ(Text(MakeObject(MakeClass("Wholer", whole), {1 << 3, 7})), "7");
  memory_.Write(whole + 88, std::uint64_t{0x1234});  // another function for repr()
  EXPECT_EQ(Text(MakeObject(whole, {1 << 3, 7})), "Whole(7)") << "which nobody calls";
}

TEST_F(FakeObjects, ClassesThatAreMadeOfEachOtherEnd) {
  const RemoteAddress one = MakeClass("One", {});
  const RemoteAddress two = MakeClass("Two", one);
  memory_.Write(one + 256, two);
  EXPECT_TRUE(Text(MakeObject(two, {})).starts_with("<Two at 0x"));
}

TEST_F(FakeObjects, DictsOfTheStandardLibraryAreNamed) {
  const RemoteAddress a = MakeStr("a");
  const RemoteAddress b = MakeStr("b");
  const RemoteAddress factory = MakeInt(5);
  const RemoteAddress ordered = MakeType("collections.OrderedDict");
  EXPECT_EQ(Text(MakeDict(dict_, {{a, MakeInt(1)}})), "{'a': 1}");
  EXPECT_EQ(
      Text(MakeDict(MakeType("collections.defaultdict", kHeapType), {{a, MakeInt(1)}}, {factory.address})),
      "defaultdict(5, {'a': 1})");
  const RemoteAddress second = memory_.Allocate(32);  // {key, hash, next, previous}
  memory_.Write(second, a);
  const RemoteAddress first = memory_.Allocate(32);
  memory_.Write(first, b);
  memory_.Write(first + 16, second);
  EXPECT_EQ(Text(MakeDict(ordered, {{a, MakeInt(1)}, {b, MakeInt(2)}}, {first.address})),
            "OrderedDict({'b': 2, 'a': 1})")
      << "in the order of its nodes";
  memory_.Write(second, MakeStr("c"));
  EXPECT_EQ(Text(MakeDict(ordered, {{a, MakeInt(1)}, {b, MakeInt(2)}}, {first.address})),
            "OrderedDict({'a': 1, 'b': 2})")
      << "a node that is not in the dict";
}

TEST_F(FakeObjects, ADequeThatMakesNoSenseIsUnreadable) {
  const RemoteAddress deque = MakeType("collections.deque");
  const RemoteAddress block = memory_.Allocate(66 * 8);
  memory_.Write(block + 8 * (1 + 63), MakeInt(1));
  memory_.Write(block + 8 * 65, block);  // the next one is itself
  memory_.Write(block + 8, MakeInt(2));
  EXPECT_EQ(Text(MakeObject(deque, {2, block.address, block.address, 63, 0, 0, UINT64_MAX})),
            "deque([1, 2])");
  EXPECT_EQ(Text(MakeObject(deque, {1, block.address, block.address, 63, 63, 0, 5})), "deque([1], maxlen=5)");
  EXPECT_EQ(Text(MakeObject(deque, {1, block.address, block.address, 65, 0, 0, 5})), "<unreadable>");
  EXPECT_EQ(Text(MakeObject(deque, {UINT64_MAX, block.address, block.address, 0, 0, 0, 5})), "<unreadable>");
  EXPECT_EQ(Text(MakeObject(deque, {9, 0x10, 0x10, 0, 0, 0, 5})), "<unreadable>");
}

TEST_F(FakeObjects, ATupleWithNamesShowsThem) {
  const RemoteAddress point = MakeClass("Point", tuple_, kTupleSubclass);
  const RemoteAddress object = MakeTuple(point, {MakeInt(1), MakeInt(2)});
  EXPECT_EQ(Text(object), "(1, 2)");
  const RemoteAddress names = MakeTuple(tuple_, {MakeStr("x"), MakeStr("\x1b[2J")});
  memory_.Write(point + 264, MakeDict(dict_, {{MakeStr("_fields"), names}}));
  EXPECT_EQ(Text(object), "Point(x=1, '\\x1b[2J'=2)") << "what a terminal would obey is escaped";
  EXPECT_EQ(Text(MakeTuple(point, {MakeInt(1)})), "(1,)") << "not as many as names";
}

TEST_F(FakeObjects, AnErrorShowsItsArguments) {
  const RemoteAddress error =
      MakeClass("Failure", MakeType("Exception", kExceptionSubclass), kExceptionSubclass);
  const RemoteAddress arguments = MakeTuple(tuple_, {MakeStr("wrong")});
  EXPECT_EQ(Text(MakeObject(error, {0, arguments.address})), "Failure('wrong')");
  EXPECT_EQ(Text(MakeObject(error, {0, 0})), "<unreadable>");
}

TEST_F(FakeObjects, AttributesInSlotsAreShown) {
  const RemoteAddress type = MakeClass("Slots", MakeType("object"));
  const RemoteAddress members = memory_.Allocate(40 * 4);
  const RemoteAddress names = memory_.Allocate(16);
  memory_.Write(names, "size");
  memory_.Write(names + 8, "next");
  memory_.Write(members, names);
  memory_.Write(members + 8, std::int32_t{16});
  memory_.Write(members + 16, std::uint64_t{16});
  memory_.Write(members + 40, names + 8);
  memory_.Write(members + 48, std::int32_t{16});
  memory_.Write(members + 56, std::uint64_t{24});
  memory_.Write(type + 240, members);
  const RemoteAddress inner = MakeObject(type, {MakeInt(2).address, 0});
  EXPECT_TRUE(Text(inner).ends_with(" size=2>"));
  const RemoteAddress outer = MakeObject(type, {MakeInt(1).address, inner.address});
  const std::string text = Text(outer);
  EXPECT_NE(text.find(" size=1, next=<Slots at 0x"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(">>")) << "the one inside is not opened: " << text;
  memory_.Write(members + 16, UINT64_MAX);
  EXPECT_EQ(Text(outer).find("size="), std::string::npos) << "a place outside of any object";
}

TEST_F(FakeObjects, DepthIsAnOption) {
  RemoteAddress list = MakeList({MakeInt(1)}, 1);
  for (int i = 0; i < 40; ++i) list = MakeList({list}, 1);
  ObjectReader reader(limited_, location_);
  EXPECT_EQ(reader.Describe(list).text, "[[[[[[[…]]]]]]]");
  reader.set_depth(1);
  EXPECT_EQ(reader.Describe(list).text, "[[…]]");
  reader.set_depth(0);
  EXPECT_EQ(reader.Describe(list).text, "[…]");
}

TEST_F(FakeObjects, WideAndDeepListsAreBoundedInBytes) {
  RemoteAddress list = MakeList({}, 0);
  for (int i = 0; i < 30; ++i) list = MakeList(std::vector<RemoteAddress>(8, list), 8);
  ObjectReader reader(limited_, location_);
  reader.set_depth(kMaxValueDepth);
  const std::string text = reader.Describe(list).text;
  EXPECT_LT(text.size(), 10'000U);
  EXPECT_GT(limited_.reads_left(), 0U) << "and not by the limit of what may be read";
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
  const RemoteAddress data = memory_.Allocate(8);
  memory_.Write(data, 0.1);
  EXPECT_EQ(Text(MakeObject(type, {data.address, 0, 0, 0, 0, descr.address})), "array(0.1)");
  EXPECT_TRUE(Text(MakeObject(type, {0x10, 0, 0, 0, 0, descr.address})).starts_with("<numpy.ndarray at 0x"));
}

TEST_F(FakeObjects, ANumberOfNumpyHasItsType) {
  EXPECT_EQ(Text(MakeObject(MakeType("numpy.float32"), {0x3f000000})), "np.float32(0.5)");
  EXPECT_EQ(Text(MakeObject(MakeType("numpy.longlong"), {UINT64_MAX})), "np.int64(-1)");
  EXPECT_EQ(Text(MakeObject(MakeType("numpy.bool_"), {1})), "np.True_");
  EXPECT_EQ(Text(MakeObject(MakeType("numpy.datetime64"), {1, std::uint64_t{1} << 32 | 4})),
            "np.datetime64('1970-01-02')");
  EXPECT_TRUE(Text(MakeObject(MakeType("numpy.datetime64"), {1, 3})).starts_with("<numpy.datetime64 at 0x"));
  EXPECT_TRUE(Text(MakeObject(MakeType("numpy.flatiter"), {1})).starts_with("<numpy.flatiter at 0x"));
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

TEST_F(FakeTensors, ATensorOfOneNumberInTheMemoryOfTheProcessHasItsValue) {
  const RemoteAddress tensor = memory_.Allocate(256);
  const RemoteAddress object = MakeObject(type_, {tensor.address});
  const RemoteAddress storage = memory_.Allocate(64);
  const RemoteAddress data = memory_.Allocate(16);
  memory_.Write(data + 4, 0.25F);
  memory_.Write(storage + 16, data);
  memory_.Write(storage + 48, std::uint64_t{8});
  memory_.Write(tensor + 16, storage);
  memory_.Write(tensor + 48, object);
  memory_.Write(tensor + 144, std::int64_t{1});  // the place in the storage
  memory_.Write(tensor + 152, std::int64_t{1});
  memory_.Write(tensor + 160, std::uint64_t{0x01'ff'00'0006U});
  EXPECT_EQ(Text(object), "tensor(0.25)");
  memory_.Write(tensor + 160, std::uint64_t{0x01'ff'00'000fU});
  EXPECT_EQ(Text(object), "tensor(0.0, dtype=torch.bfloat16)");
  memory_.Write(tensor + 144, std::int64_t{4});
  EXPECT_EQ(Text(object), "Tensor() bfloat16 cpu") << "behind the end of the storage";
  memory_.Write(tensor + 144, std::int64_t{1});
  memory_.Write(storage + 40, std::uint8_t{1});
  EXPECT_EQ(Text(object), "Tensor() bfloat16 cpu") << "the storage is of another device";
  memory_.Write(tensor + 160, std::uint64_t{0x01'01'01'0006U});
  EXPECT_EQ(Text(object), "Tensor() float32 cuda:1");
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
        constexpr std::string_view kNames[] = {"int",
                                               "dict",
                                               "set",
                                               "tuple",
                                               "numpy.ndarray",
                                               "list",
                                               "str",
                                               "bytes",
                                               "module",
                                               "torch._C.TensorBase",
                                               "deque",
                                               "slice",
                                               "complex",
                                               "Counter",
                                               "collections.OrderedDict",
                                               "collections.defaultdict",
                                               "collections.deque",
                                               "numpy.float32",
                                               "numpy.datetime64",
                                               "torch.Size",
                                               "torch.dtype",
                                               "bytearray",
                                               "EnumMeta",
                                               "type",
                                               "method",
                                               "torch.device"};
        const std::string_view name = kNames[random() % std::size(kNames)];
        memory.Write({FakeMemory::kBase + at}, name);
        memory.Write(RemoteAddress{FakeMemory::kBase + at + name.size()}, '\0');
      }
      LocalsReader reader(memory, location);
      reader.Begin(kDefaultValueDepth);
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
