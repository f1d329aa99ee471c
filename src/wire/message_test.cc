#include "wire/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "base/scoped_fd.h"

namespace probing::wire {
namespace {

std::array<ScopedFd, 2> SocketPair() {
  std::array<int, 2> fds{};
  socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data());
  return {ScopedFd(fds[0]), ScopedFd(fds[1])};
}

TEST(Message, ComesBackAsItWasSentEvenByteByByte) {
  const std::string binary("\0\xff\n", 3);
  const std::string frame = Message::Request(7, "eval").Set("code", binary).Set("timeout_ms", 250).Encode();
  Decoder decoder;
  std::optional<Message> message;
  for (const char byte : frame) {
    ASSERT_FALSE(message.has_value());
    decoder.Append({&byte, 1});
    Result<std::optional<Message>> next = decoder.Next();
    ASSERT_TRUE(next.ok());
    message = std::move(*next);
  }
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->id(), 7U);
  EXPECT_EQ(message->Get("verb"), "eval");
  EXPECT_EQ(message->Get("code"), binary);
  EXPECT_EQ(message->GetNumber("timeout_ms"), 250);
  EXPECT_FALSE(message->failure().has_value());
}

TEST(Message, SeveralInOneReadAreGivenOneByOne) {
  Decoder decoder;
  decoder.Append(Message::Request(1, "a").Encode() + Message::Request(2, "b").Encode());
  EXPECT_EQ((**decoder.Next()).Get("verb"), "a");
  EXPECT_EQ((**decoder.Next()).Get("verb"), "b");
  EXPECT_FALSE(decoder.Next()->has_value());
}

TEST(Message, AFailureCarriesCodeMessageAndHint) {
  const std::optional<Error> error = Message::Failure(1, {Code::kTimeout, "too slow", "wait"}).failure();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, Code::kTimeout);
  EXPECT_EQ(error->message, "too slow");
  EXPECT_EQ(error->hint, "wait");
}

TEST(Message, AFrameThatLiesAboutItsSizesIsAnError) {
  for (const std::string& bad : {std::string("\xff\xff\xff\xff____", 8), std::string("\x01\0\0\0_", 5),
                                 std::string("\x0a\0\0\0____\xff\0\xff\0\0\0", 14)}) {
    Decoder decoder;
    decoder.Append(bad);
    EXPECT_FALSE(decoder.Next().ok());
  }
}

TEST(Call, ReturnsTheAnswerWithItsOwnIdAndSkipsOthers) {
  auto [here, there] = SocketPair();
  std::thread probe([&there = there] {
    std::array<char, 4096> request;
    if (recv(there.get(), request.data(), request.size(), 0) <= 0) return;
    const std::string answers = Message(1).Set("x", "late").Encode() + Message(2).Set("x", "right").Encode();
    send(there.get(), answers.data(), answers.size(), 0);
  });
  Result<Message> answer = Call(here.get(), Message::Request(2, "hello"), 5000);
  probe.join();
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->Get("x"), "right");
}

TEST(Call, GivesUpAtItsDeadlineAndWhenTheProbeGoesAway) {
  auto [here, there] = SocketPair();
  EXPECT_EQ(Call(here.get(), Message::Request(1, "hello"), 10).error().code, Code::kTimeout);
  there.Reset();
  EXPECT_FALSE(Call(here.get(), Message::Request(1, "hello"), 5000).ok());
}

// Answers one request on `socket` with a frame and the descriptor `fd`.
std::thread AnswerWithFd(int socket, std::string frame, int fd) {
  return std::thread([socket, frame = std::move(frame), fd] {
    std::array<char, 4096> request;
    if (recv(socket, request.data(), request.size(), 0) <= 0) return;
    if (fd >= 0) {
      SendWithFd(socket, frame, fd);
    } else {
      send(socket, frame.data(), frame.size(), 0);
    }
  });
}

TEST(CallForFd, GivesTheDescriptorThatCameWithTheAnswer) {
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  const ScopedFd read_end(pipe_fds[0]);
  ScopedFd write_end(pipe_fds[1]);
  auto [ours, theirs] = SocketPair();
  std::thread right = AnswerWithFd(theirs.get(), Message(4).Encode(), write_end.get());
  Result<ScopedFd> received = CallForFd(ours.get(), Message::Request(4, "rings"), 5000);
  right.join();
  ASSERT_TRUE(received.ok()) << received.error().message;
  write_end.Reset();
  ASSERT_EQ(write(received->get(), "!", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, '!');
}

TEST(CallForFd, ReportsWhatTheProbeSaysAndAMissingDescriptor) {
  auto [here, there] = SocketPair();
  std::thread refusing =
      AnswerWithFd(there.get(), Message::Failure(1, {Code::kFailed, "no", ""}).Encode(), -1);
  Result<ScopedFd> refused = CallForFd(here.get(), Message::Request(1, "rings"), 5000);
  refusing.join();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "no");

  std::thread forgetting = AnswerWithFd(there.get(), Message(2).Encode(), -1);
  Result<ScopedFd> missing = CallForFd(here.get(), Message::Request(2, "rings"), 5000);
  forgetting.join();
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("descriptor"), std::string::npos);
}

// Sends `frame` with two descriptors in one control message.
void SendWithTwoFds(int socket, std::string_view frame, int first, int second) {
  const std::array<int, 2> fds{first, second};
  iovec data{const_cast<char*>(frame.data()), frame.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(fds))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* entry = CMSG_FIRSTHDR(&header);
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = SCM_RIGHTS;
  entry->cmsg_len = CMSG_LEN(sizeof(fds));
  std::memcpy(CMSG_DATA(entry), fds.data(), sizeof(fds));
  ASSERT_GT(sendmsg(socket, &header, 0), 0);
}

TEST(ReceiveWithFd, ClosesAllButTheLastOfSeveral) {
  auto [here, there] = SocketPair();
  std::array<int, 2> first{};
  std::array<int, 2> second{};
  ASSERT_EQ(pipe(first.data()), 0);
  ASSERT_EQ(pipe(second.data()), 0);
  const ScopedFd first_read(first[0]);
  const ScopedFd second_read(second[0]);
  SendWithTwoFds(there.get(), "x", first[1], second[1]);
  close(first[1]);
  close(second[1]);
  ScopedFd received;
  char byte = 0;
  ASSERT_EQ(ReceiveWithFd(here.get(), &byte, 1, received), 1);
  EXPECT_TRUE(received.valid());
  fcntl(first_read.get(), F_SETFL, O_NONBLOCK);
  EXPECT_EQ(read(first_read.get(), &byte, 1), 0) << "no writer of the first is left";
}

TEST(Decoder, RefusesFramesAndFieldsBeyondItsLimits) {
  Decoder decoder(kMaxShortFrameBytes);
  decoder.Append(Message(1).Set("x", std::string(kMaxShortFrameBytes, 'x')).Encode());
  EXPECT_FALSE(decoder.Next().ok());
  Message many(1);
  for (std::size_t i = 0; i <= kMaxFields; ++i) many.Set("", "");
  Decoder other;
  other.Append(many.Encode());
  EXPECT_FALSE(other.Next().ok());
}

TEST(Call, ClosesADescriptorThatNobodyAskedFor) {
  auto [here, there] = SocketPair();
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  const ScopedFd read_end(pipe_fds[0]);
  ScopedFd write_end(pipe_fds[1]);
  std::thread probe = AnswerWithFd(there.get(), Message(5).Encode(), write_end.get());
  EXPECT_TRUE(Call(here.get(), Message::Request(5, "rings"), 5000).ok());
  probe.join();
  write_end.Reset();
  char byte = 0;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 0) << "no writer is left";
}

}  // namespace
}  // namespace probing::wire
