#include "process/maps.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace probing::process {
namespace {

constexpr std::string_view kText =
    "00400000-00401000 r--p 00000000 08:02 173521                             /usr/bin/a b (deleted)\n"
    "00401000-00402000 r-xp 00001000 08:02 173521                             /usr/bin/a b (deleted)\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
    "7f1000000000-7f1000001000 r--s 00000000 00:01 1026                       /memfd:probing (deleted)\n"
    "7f1000002000-7f1000003000 rw-p 00002000 08:02 173521                     /usr/bin/a b (deleted)\n"
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

TEST(Maps, ReadsEveryFieldOfALine) {
  const Maps maps = Maps::Parse(kText);
  ASSERT_EQ(maps.all().size(), 7U);
  const Mapping& code = maps.all()[1];
  EXPECT_EQ(code.start, 0x401000U);
  EXPECT_EQ(code.end, 0x402000U);
  EXPECT_EQ(code.file_offset, 0x1000U);
  EXPECT_EQ(code.inode, 173521U);
  EXPECT_TRUE(code.readable && !code.writable && code.executable);
  EXPECT_EQ(code.path, "/usr/bin/a b (deleted)") << "spaces belong to the path";
  EXPECT_EQ(maps.all()[2].path, "");
  EXPECT_EQ(maps.all()[5].path, "[stack]");
}

TEST(Maps, SkipsLinesThatMakeNoSense) {
  const Maps maps = Maps::Parse(
      "\n"
      "hello\n"
      "00400000\n"
      "00400000-\n"
      "00400000-00400000 r--p 00000000 08:02 1 /empty\n"
      "00500000-00400000 r--p 00000000 08:02 1 /backwards\n"
      "00400000-00401000 r-p 00000000 08:02 1 /three-rights\n"
      "00400000-00401000 r--p zzz 08:02 1 /offset\n"
      "00400000-00401000 r--p 00000000 08:02 x /inode\n"
      "fffffffffffffffff-fffffffffffffffff1 r--p 0 08:02 1 /too-big\n"
      "00400000-00401000 r--p 00000000 08:02 1 /good\nsecond line of that path\n"
      "00600000-00601000 r--p 00000000 08:02 1 /no-newline-at-the-end");
  ASSERT_EQ(maps.all().size(), 2U);
  EXPECT_EQ(maps.all()[0].path, "/good");
  EXPECT_EQ(maps.all()[1].path, "/no-newline-at-the-end");
}

TEST(Maps, NothingIsFoundInNothing) {
  EXPECT_TRUE(Maps::Parse("").all().empty());
  EXPECT_EQ(Maps::Parse("").Find(0x1000), nullptr);
  EXPECT_TRUE(Maps::Parse("").Objects().empty());
}

TEST(Maps, FindsTheMappingOfAnAddress) {
  const Maps maps = Maps::Parse(kText);
  EXPECT_EQ(maps.Find(0x3fffff), nullptr);
  EXPECT_EQ(maps.Find(0x400000), &maps.all()[0]);
  EXPECT_EQ(maps.Find(0x401fff), &maps.all()[1]);
  EXPECT_EQ(maps.Find(0x402000), nullptr) << "the end does not belong to it";
  EXPECT_EQ(maps.Find(0xffffffffff600000), &maps.all()[6]);
  EXPECT_EQ(maps.Find(0xffffffffffffffff), nullptr);
}

TEST(Maps, ObjectsJoinThePartsOfAFile) {
  const auto objects = Maps::Parse(kText).Objects();
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].base, 0x400000U);
  EXPECT_EQ(objects[0].parts.size(), 3U) << "also the part behind another file";
  EXPECT_EQ(objects[1].path, "/memfd:probing (deleted)");
}

TEST(Maps, ReadsALiveProcess) {
  const auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok());
  const int on_stack = 0;
  const Mapping* stack = maps->Find(reinterpret_cast<std::uint64_t>(&on_stack));
  ASSERT_NE(stack, nullptr);
  EXPECT_TRUE(stack->writable);
}

TEST(Maps, ADeadProcessIsAnError) { EXPECT_FALSE(Maps::Read(-1).ok()); }

TEST(BaseName, LeavesOutFolderAndDeletedMark) {
  EXPECT_EQ(BaseName("/usr/lib/libc.so.6"), "libc.so.6");
  EXPECT_EQ(BaseName("/usr/lib/libc.so.6 (deleted)"), "libc.so.6");
  EXPECT_EQ(BaseName("[heap]"), "[heap]");
  EXPECT_EQ(BaseName(""), "");
  EXPECT_EQ(BaseName("/"), "");
}

}  // namespace
}  // namespace probing::process
