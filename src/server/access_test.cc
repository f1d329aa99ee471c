#include "server/access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"

namespace probing::server {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr const char* kToken = "0123456789abcdef0123";

Peer Local(std::optional<uid_t> uid) {
  return {.via = Peer::Via::kTcp, .address = "127.0.0.1", .uid = uid, .local_address = "127.0.0.1"};
}

Peer Remote() {
  return {.via = Peer::Via::kTcp, .address = "10.0.0.7", .local_address = "10.0.0.1", .is_encrypted = true};
}

RequestHead Get(std::string host = "127.0.0.1:3344") {
  RequestHead head;
  head.method = "GET";
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

TEST_F(AccessTest, AnAddedTokenReplacesNone) {
  constexpr const char* kAnother = "another-another-another";
  RequestHead head = Get();
  EXPECT_TRUE(access_.AddToken(Right::kRead, kAnother).ok());
  EXPECT_EQ(access_.TokenOf(Right::kRead), "read-read-read-read") << "the one that is shown";
  for (const auto& [token, right] : {std::pair(kAnother, Right::kRead), std::pair(kToken, Right::kEval),
                                     std::pair("read-read-read-read", Right::kRead)}) {
    head.authorization = std::string("Bearer ") + token;
    EXPECT_EQ(access_.Check(head, Local(own_ + 1), 0).right, right) << token;
  }
  EXPECT_FALSE(access_.AddToken(Right::kEval, "short").ok());
  for (int i = 0; i < 100; ++i)
    (void)access_.AddToken(Right::kRead, "many-many-many-many-" + std::to_string(i));
  EXPECT_FALSE(access_.AddToken(Right::kRead, "one-too-many-one-too-many").ok());
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

TEST_F(AccessTest, OneHost) {
  RequestHead head = Get();
  head.hosts = {"127.0.0.1", "evil"};
  EXPECT_EQ(Status(head, Local(own_)), 400);
  head.hosts.clear();
  EXPECT_EQ(Status(head, Local(own_)), 400);
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
  head.fetch_mode = "navigate";
  head.fetch_dest = "document";
  EXPECT_EQ(Status(head, Local(own_)), 403) << "no route is answered unless it says so";
}

TEST_F(AccessTest, ALinkToThePageMayBeAnywhere) {
  RequestHead visit = Get();
  visit.answers_links = true;
  visit.fetch_site = "cross-site";
  visit.fetch_mode = "navigate";
  visit.fetch_dest = "document";
  EXPECT_EQ(Status(visit, Local(own_)), 0);
  RequestHead head = visit;
  head.is_upgrade = true;
  EXPECT_EQ(Status(head, Local(own_)), 403);
  head = visit;
  head.method = "POST";
  EXPECT_EQ(Status(head, Local(own_)), 403);
  head = visit;
  head.fetch_dest = "iframe";
  EXPECT_EQ(Status(head, Local(own_)), 403);
  head = visit;
  head.fetch_mode = "no-cors";
  EXPECT_EQ(Status(head, Local(own_)), 403);
}

// Sec-Fetch-Site is not sent to http:// beyond this machine, and Origin is not with a GET.
TEST_F(AccessTest, ABrowserThatSaysNothingOfTheSiteIsAnotherSites) {
  RequestHead head = Get("10.0.0.1:3344");
  const Peer own_browser{
      .via = Peer::Via::kTcp, .address = "10.0.0.1", .uid = own_, .local_address = "10.0.0.1"};
  EXPECT_EQ(Status(head, own_browser), 0) << "curl";
  head.user_agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36";
  EXPECT_EQ(Status(head, own_browser), 403);
  for (const char* referer : {"http://evil.example/", "http://10.0.0.1:8080/x", "http://10.0.0.1:3344.evil/",
                              "nonsense", "http://evil/http://10.0.0.1:3344/"}) {
    head.referer = referer;
    EXPECT_EQ(Status(head, own_browser), 403) << referer;
  }
  for (const char* referer : {"http://10.0.0.1:3344/", "http://10.0.0.1:3344"}) {
    head.referer = referer;
    EXPECT_EQ(Status(head, own_browser), 0) << referer;
  }
  head.referer.clear();
  head.answers_links = true;
  EXPECT_EQ(Status(head, own_browser), 0) << "the page itself";
  head.is_upgrade = true;
  EXPECT_EQ(Status(head, own_browser), 403);
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

// A comparison that ends at the first difference tells a guesser how far it was right. The ratio of two
// medians in one process says so on any machine: such a comparison is a thousand times faster here.
TEST(Secrets, AreComparedInATimeThatTellsNothing) {
  const std::string secret(1 << 20, 'a');
  std::string early = secret;
  std::string late = secret;
  early.front() = late.back() = 'b';
  const auto median_ns = [&](const std::string& guess) {
    std::vector<std::int64_t> times;
    for (int i = 0; i < 21; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_FALSE(SameSecret(guess, secret));
      times.push_back((std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    return times[10];
  };
  EXPECT_GT(median_ns(early) * 10, median_ns(late));
}

TEST(Secrets, AreComparedWhole) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  for (const char* other : {"abd", "ab", "abcd", "", "abcabc"})
    EXPECT_FALSE(SameSecret("abc", other)) << other;
  EXPECT_FALSE(SameSecret("", ""));
}

// The quickest of some comparisons with a text that is wrong at `at`.
std::int64_t TimeOfWrong(std::size_t at) {
  const std::string right(1 << 20, 'a');
  std::string wrong = right;
  wrong[at] = 'b';
  std::int64_t best_ns = INT64_MAX;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t began_ns = MonotonicNs();
    EXPECT_FALSE(SameSecret(wrong, right));
    best_ns = std::min(best_ns, MonotonicNs() - began_ns);
  }
  return best_ns;
}

TEST(Secrets, TakeAsLongToCompareWhereverTheyDiffer) {
  EXPECT_LT(TimeOfWrong((1 << 20) - 1), 3 * TimeOfWrong(0));
}

TEST(Secrets, AreNeverTheSameTwice) {
  EXPECT_EQ(MakeSecret().size(), 64U);
  EXPECT_NE(MakeSecret(), MakeSecret());
}

}  // namespace
}  // namespace probing::server
