#include "wire/message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
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

}  // namespace
}  // namespace probing::wire
