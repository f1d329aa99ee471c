#include "server/access.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace probing::server {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr const char* kToken = "0123456789abcdef0123";

Peer Local(std::optional<uid_t> uid) { return {Peer::Via::kTcp, "127.0.0.1", uid, "127.0.0.1", false}; }

Peer Remote() { return {Peer::Via::kTcp, "10.0.0.7", std::nullopt, "10.0.0.1", true}; }

RequestHead Get(std::string host = "127.0.0.1:3344") {
  RequestHead head;
  head.method = "GET";
  head.target = "/api/v1/health";
  head.hosts = {std::move(host)};
  return head;
}

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    EXPECT_TRUE(access_.SetToken(Right::kEval, kToken).ok());
    EXPECT_TRUE(access_.SetToken(Right::kRead, "read-read-read-read").ok());
    access_.Configure({Right::kEval, {"node7"}});
  }

  // 0 when it is let in.
  int Status(const RequestHead& head, const Peer& peer, std::int64_t now_ns = 0) {
    const Access::Decision decision = access_.Check(head, peer, now_ns);
    return decision.refusal ? decision.refusal->http_status : 0;
  }

  Access access_;
  const uid_t own_ = geteuid();
};

TEST_F(AccessTest, AProgramOfTheSameUserNeedsNothing) {
  EXPECT_EQ(Status(Get(), Local(own_)), 0);
  EXPECT_EQ(access_.Check(Get(), Local(own_), 0).right, Right::kEval);
}

TEST_F(AccessTest, AnotherUserNeedsAToken) {
  RequestHead head = Get();
  EXPECT_EQ(Status(head, Local(own_ + 1)), 401);
  head.authorization = std::string("Bearer ") + kToken;
  EXPECT_EQ(Status(head, Local(own_ + 1)), 0);
}

TEST_F(AccessTest, AnotherMachineHasToEncrypt) {
  RequestHead head = Get("10.0.0.1:3344");
  head.authorization = std::string("Bearer ") + kToken;
  Peer peer = Remote();
  EXPECT_EQ(Status(head, peer), 0);
  peer.is_encrypted = false;
  EXPECT_EQ(Status(head, peer), 426);
  EXPECT_EQ(access_.CheckText(kToken, peer, 0).refusal->http_status, 426);
  EXPECT_EQ(access_.RedeemTicket("x", head, peer, 0).refusal->http_status, 426);
  peer.uid = own_ + 1;
  EXPECT_EQ(Status(head, peer), 0) << "the kernel knows it: it is on this machine";
  peer.uid.reset();
  access_.Configure({Right::kEval, {}, true});
  EXPECT_EQ(Status(head, peer), 0) << "the owner says so";
}

TEST_F(AccessTest, WhoComesThroughAProxyIsNotItsUser) {
  RequestHead head = Get();
  head.was_forwarded = true;
  EXPECT_EQ(Status(head, Local(own_)), 401);
}

TEST_F(AccessTest, ATokenGivesItsRightAndNoMore) {
  RequestHead head = Get("10.0.0.1:3344");
  head.authorization = "bearer read-read-read-read";
  EXPECT_EQ(access_.Check(head, Remote(), 0).right, Right::kRead);
  EXPECT_EQ(access_.Check(head, Local(own_), 0).right, Right::kNone) << "that host is not loopback's";
  head.hosts = {"127.0.0.1"};
  EXPECT_EQ(access_.Check(head, Local(own_), 0).right, Right::kRead) << "even of the owner";
}

TEST_F(AccessTest, ShortTokensAreRefused) { EXPECT_FALSE(access_.SetToken(Right::kEval, "secret").ok()); }

TEST_F(AccessTest, OnlyOurOwnNamesAreAnswered) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:9", "localhost:3344", "LOCALHOST", "[::1]:3344", "node7:3344"})
    EXPECT_EQ(Status(Get(host), Local(own_)), 0) << host;
  for (const char* host :
       {"127.0.0.1.evil", "localhost6", "10.0.2.555", "0177.0.0.1", "evil.example:3344", "",
        "127.0.0.1:3344@evil", "node7.evil", "2130706433", "[::1]evil", "a:b:c", "10.0.0.9", "127.0.0.1:33x"})
    EXPECT_EQ(Status(Get(host), Local(own_)), 421) << host;
}

TEST_F(AccessTest, OneHostAndAPathOfOurs) {
  RequestHead head = Get();
  head.hosts = {"127.0.0.1", "evil"};
  EXPECT_EQ(Status(head, Local(own_)), 400);
  head.hosts.clear();
  EXPECT_EQ(Status(head, Local(own_)), 400);
  head = Get();
  for (const char* target : {"http://127.0.0.1/", "*", "", "//evil/x", "evil:80"}) {
    head.target = target;
    EXPECT_EQ(Status(head, Local(own_)), 400) << target;
  }
}

TEST_F(AccessTest, OtherSitesAreRefused) {
  RequestHead head = Get();
  head.origin = "http://127.0.0.1:3344";
  EXPECT_EQ(Status(head, Local(own_)), 0);
  for (const char* origin : {"http://evil.example", "null", "http://127.0.0.1:8080", "http://127.0.0.1"}) {
    head.origin = origin;
    EXPECT_EQ(Status(head, Local(own_)), 403) << origin;
  }
  head = Get();
  head.fetch_site = "cross-site";
  EXPECT_EQ(Status(head, Local(own_)), 403);
  head.target = "/";
  head.fetch_mode = "navigate";
  EXPECT_EQ(Status(head, Local(own_)), 0) << "a link to the page may be anywhere";
  head.is_upgrade = true;
  EXPECT_EQ(Status(head, Local(own_)), 403);
}

TEST_F(AccessTest, BodiesAreJsonSoThatFormsOfOtherSitesAreNot) {
  RequestHead head = Get();
  head.method = "POST";
  head.has_body = true;
  head.content_type = "text/plain";
  EXPECT_EQ(Status(head, Local(own_)), 415);
  head.content_type = "application/json; charset=utf-8";
  EXPECT_EQ(Status(head, Local(own_)), 0);
}

TEST_F(AccessTest, GuessingOfOneUserLocksOutNobodyElse) {
  RequestHead head = Get();
  head.authorization = "Bearer wrong";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Status(head, Local(own_ + 1)), 401);
  head.authorization = std::string("Bearer ") + kToken;
  EXPECT_EQ(Status(head, Local(own_ + 1)), 429);
  EXPECT_EQ(Status(head, Local(own_ + 2)), 0);
}

TEST_F(AccessTest, GuessingEnds) {
  RequestHead head = Get("10.0.0.1");
  head.authorization = "Bearer wrong";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Status(head, Remote()), 401);
  EXPECT_EQ(Status(head, Remote()), 429);
  head.authorization = std::string("Bearer ") + kToken;
  EXPECT_EQ(Status(head, Remote()), 429) << "the right one is not answered either";
  EXPECT_EQ(Status(Get(), Local(own_)), 0) << "others are";
  EXPECT_EQ(Status(head, Remote(), 61 * kSecond), 0) << "after a minute";
}

TEST_F(AccessTest, ALinkIsGoodForOneVisit) {
  RequestHead visit = Get("10.0.0.1");
  const std::string ticket = access_.IssueTicket(Right::kEval, 0);
  const Access::Visit first = access_.RedeemTicket(ticket, visit, Remote(), kSecond);
  ASSERT_FALSE(first.refusal);
  EXPECT_TRUE(access_.RedeemTicket(ticket, visit, Remote(), kSecond).refusal);
  RequestHead head = Get("10.0.0.1");
  head.cookie = "other=1; " + std::string(kSessionCookie) + "=" + first.cookie;
  EXPECT_EQ(access_.Check(head, Remote(), kSecond).right, Right::kEval);
  EXPECT_EQ(Status(head, Remote(), 13 * 3600 * kSecond), 401) << "and a cookie for half a day";
  head.cookie = std::string(kSessionCookie) + "=" + first.cookie.substr(1);
  EXPECT_EQ(Status(head, Remote(), kSecond), 401);
}

TEST_F(AccessTest, AnOldLinkIsNoGood) {
  const std::string ticket = access_.IssueTicket(Right::kEval, 0);
  EXPECT_TRUE(access_.RedeemTicket(ticket, Get("10.0.0.1"), Remote(), 601 * kSecond).refusal);
}

TEST_F(AccessTest, TextHasTheSameRules) {
  EXPECT_EQ(access_.CheckText("", Local(own_), 0).right, Right::kEval);
  EXPECT_TRUE(access_.CheckText("", Remote(), 0).refusal);
  EXPECT_EQ(access_.CheckText(kToken, Remote(), 0).right, Right::kEval);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(access_.CheckText("wrong", Remote(), 0).refusal);
  EXPECT_EQ(access_.CheckText(kToken, Remote(), 0).refusal->http_status, 429);
}

TEST(Secrets, AreComparedWhole) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  for (const char* other : {"abd", "ab", "abcd", "", "abcabc"})
    EXPECT_FALSE(SameSecret("abc", other)) << other;
  EXPECT_FALSE(SameSecret("", ""));
  EXPECT_EQ(MakeSecret().size(), 64U);
  EXPECT_NE(MakeSecret(), MakeSecret());
}

}  // namespace
}  // namespace probing::server
