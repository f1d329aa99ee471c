#include "cli/web_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace probing::cli {
namespace {

class WebSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours_.Reset(ends[0]);
    theirs_.Reset(ends[1]);
  }

  void Feed(const std::string& bytes) const {
    ASSERT_EQ(write(theirs_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  // What the client sent: first byte, and its payload without the mask. Frames of up to 125 bytes.
  std::pair<unsigned, std::string> Sent() const {
    std::array<char, 200> bytes{};
    const ssize_t n = read(theirs_.get(), bytes.data(), bytes.size());
    if (n < 6) return {0, ""};
    std::string payload;
    for (ssize_t i = 6; i < n; ++i) {
      payload += static_cast<char>(bytes[static_cast<std::size_t>(i)] ^ bytes[2 + (i - 6) % 4]);
    }
    EXPECT_EQ(static_cast<unsigned char>(bytes[1]), 0x80U | payload.size());
    return {static_cast<unsigned char>(bytes[0]), payload};
  }

  ScopedFd ours_, theirs_;
};

TEST_F(WebSocketTest, WhatIsSentIsOneMaskedFrame) {
  WebSocket socket(net::Channel(std::move(ours_)), "");
  ASSERT_TRUE(socket.Send("hello").ok());
  EXPECT_EQ(Sent(), std::make_pair(0x81U, std::string("hello")));
}

TEST_F(WebSocketTest, MessagesComeWholeHoweverTheyWereCut) {
  WebSocket socket(net::Channel(std::move(ours_)), std::string("\x01\x03one", 5));  // read with the handshake
  Feed(std::string("\x00\x03two", 5) + std::string("\x80\x05three", 7));
  Feed(std::string("\x81\x7e\x01\x00", 4) + std::string(256, 'x'));
  EXPECT_EQ(*socket.Receive(), "onetwothree");
  EXPECT_EQ(*socket.Receive(), std::string(256, 'x'));
}

TEST_F(WebSocketTest, APingIsAnsweredWhileNobodyWaits) {
  WebSocket socket(net::Channel(std::move(ours_)), "");
  EXPECT_TRUE(socket.StillThere());
  Feed(std::string("\x89\x04ping", 6));
  EXPECT_TRUE(socket.StillThere());
  EXPECT_EQ(Sent(), std::make_pair(0x8AU, std::string("ping")));
}

TEST_F(WebSocketTest, AnEndIsAnError) {
  WebSocket socket(net::Channel(std::move(ours_)), "");
  theirs_.Reset();
  EXPECT_FALSE(socket.StillThere());
  EXPECT_FALSE(socket.Receive().ok());
}

TEST_F(WebSocketTest, AFrameThatIsTooLargeIsAnError) {
  WebSocket socket(net::Channel(std::move(ours_)), "");
  Feed(std::string("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", 10));
  EXPECT_FALSE(socket.Receive().ok());
}

}  // namespace
}  // namespace probing::cli
