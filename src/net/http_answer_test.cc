#include "net/http_answer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace probing::net {
namespace {

// What is made of an answer after which the server hangs up.
Result<HttpAnswer> Read(std::string_view text) {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  Channel channel{ScopedFd(ends[0])};
  return ReadAnswer(channel, Deadline::AfterMs(5'000), 100);
}

TEST(HttpAnswerTest, NamesOfFieldsMayBeWrittenInAnyWay) {
  for (const char* name : {"Content-Length", "content-length", "CONTENT-LENGTH"}) {
    const Result<HttpAnswer> answer = Read("HTTP/1.1 200 OK\r\n" + std::string(name) + ":  2 \r\n\r\nok");
    ASSERT_TRUE(answer.ok()) << name;
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "ok");
  }
  const Result<HttpAnswer> chunked =
      Read("HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\nA: 1\r\na: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n");
  ASSERT_TRUE(chunked.ok());
  EXPECT_EQ(chunked->body, "ok");
  EXPECT_EQ(chunked->Headers("a"), (std::vector<std::string>{"1", "2"}));
}

TEST(HttpAnswerTest, WhatIsNoAnswerIsAnError) {
  for (const char* text :
       {"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2 3\r\n\r\nok", "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok\r\n"})
    EXPECT_FALSE(Read(text).ok()) << text;
}

}  // namespace
}  // namespace probing::net
