// The kernel's tables, as text.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "why/file_locks.h"
#include "why/sockets.h"

namespace probing::why {
namespace {

TEST(TcpTable, HasAddressesStatesAndInodes) {
  const auto sockets = ParseTcpTable(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n"
      "   1: 0100007F:9D76 0200000A:01BB 01 00000000:00000010 00:00000000 00000000  1000        0 4712 1 0\n"
      "garbage\n");
  ASSERT_EQ(sockets.size(), 2U);
  EXPECT_TRUE(sockets[0].is_listening());
  EXPECT_EQ(sockets[0].local, "127.0.0.1:8080");
  EXPECT_EQ(sockets[0].inode, 4711U);
  EXPECT_EQ(sockets[1].remote, "10.0.0.2:443");
  EXPECT_EQ(sockets[1].unread_bytes, 16U);
}

TEST(TcpTable, WritesMappedAddressesAsIPv4) {
  const auto sockets = ParseTcpTable(
      "header\n"
      "   0: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:0050 01 "
      "00000000:00000000 00:00000000 00000000     0        0 5 1 0\n");
  ASSERT_EQ(sockets.size(), 1U);
  EXPECT_EQ(sockets[0].local, "127.0.0.1:8080");
  EXPECT_EQ(sockets[0].remote, "[::1]:80");
}

TEST(UnixSockets, KnowTheirOtherEnd) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  struct stat one{};
  struct stat other{};
  ASSERT_EQ(fstat(ends[0], &one), 0);
  ASSERT_EQ(fstat(ends[1], &other), 0);
  const auto peers = ReadUnixPeers("");
  ASSERT_TRUE(peers.contains(one.st_ino));
  EXPECT_EQ(peers.at(one.st_ino), other.st_ino);
  close(ends[0]);
  close(ends[1]);
}

TEST(FileLocks, NameTheOneInTheWay) {
  const auto locks = ParseFileLocks(
      "1: POSIX  ADVISORY  WRITE 40 08:01:123 0 EOF\n"
      "1: -> POSIX  ADVISORY  WRITE 50 08:01:123 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 60 08:01:124 0 EOF\n"
      "nonsense\n"
      "3: OFDLCK ADVISORY  READ -1 08:01:125 0 EOF\n");
  ASSERT_EQ(locks.size(), 4U);
  EXPECT_EQ(locks[3].pid, -1);
  const auto in_the_way = LocksInTheWayOf(50, locks);
  ASSERT_EQ(in_the_way.size(), 1U);
  EXPECT_EQ(in_the_way[0].pid, 40);
  EXPECT_TRUE(LocksInTheWayOf(60, locks).empty());
}

TEST(Descriptors, OfPipesAndSocketsHaveInodes) {
  EXPECT_EQ(InodeOf("pipe:[12]"), 12U);
  EXPECT_EQ(InodeOf("socket:[13]"), 13U);
  EXPECT_EQ(InodeOf("/dev/null"), 0U);
  EXPECT_EQ(InodeOf("pipe:[x]"), 0U);
  Descriptors descriptors;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto reader = descriptors.Find(getpid(), ends[0]);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->readable);
  EXPECT_FALSE(reader->writable);
  EXPECT_EQ(descriptors.Holders(*reader).size(), 2U);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace probing::why
