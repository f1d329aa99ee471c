#include "query/protocol.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace probing::query {
namespace {

TEST(ProtocolTest, ALongFrameWaitsForItsReaderOnASocketThatDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const ScopedFd ours(ends[0]);
  const ScopedFd theirs(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const std::string payload(8 << 20, 'x');  // more than any socket keeps
  Result<Frame> frame = Error{Code::kFailed, "not yet", ""};
  std::thread reader([&] { frame = ReceiveFrame(theirs.get(), Deadline::AfterMs(10'000)); });
  const Result<void> sent = SendFrame(ours.get(), FrameType::kRows, payload, {});
  reader.join();
  EXPECT_TRUE(sent.ok());
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->payload, payload);
}

TEST(ProtocolTest, AReaderThatGoesAwayEndsTheSending) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const ScopedFd ours(ends[0]);
  ScopedFd theirs(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  std::thread reader([&] {
    char byte = 0;
    EXPECT_EQ(recv(theirs.get(), &byte, 1, 0), 1);  // it has begun
    theirs = ScopedFd();
  });
  const Result<void> sent = SendFrame(ours.get(), FrameType::kRows, std::string(8 << 20, 'x'), {});
  reader.join();
  EXPECT_FALSE(sent.ok());
}

}  // namespace
}  // namespace probing::query
