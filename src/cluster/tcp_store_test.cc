#include "cluster/tcp_store.h"

#include <gtest/gtest.h>

#include "base/base64.h"

namespace probing::cluster {
namespace {

// pickle.dumps() of torch 2.13's _RendezvousState with node0.cluster and node1.cluster as participants and
// late.cluster on the wait list.
constexpr const char* kState =
    "gASVoAEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBf"
    "UmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLAIwIY29tcGxldGWUiYwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBh"
    "cnRpY2lwYW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwNbm9kZTAuY2x1c3RlcpSMA3BpZJRLZIwIbG9j"
    "YWxfaWSUSwB1YksAaAwpgZR9lChoD4wNbm9kZTEuY2x1c3RlcpRoEUtlaBJLAHViSwF1jAl3YWl0X2xpc3SUj5QoaAwpgZR9"
    "lChoD4wMbGF0ZS5jbHVzdGVylGgRSwVoEksAdWKQjA9yZWR1bmRhbmN5X2xpc3SUj5SMD2xhc3RfaGVhcnRiZWF0c5R9lCho"
    "DYwIZGF0ZXRpbWWUjAhkYXRldGltZZSTlEMKB+oLEAAAAAAAAJSFlFKUaBNoIUMKB+oLEAAAAAAAAJSFlFKUdXViLg==";

TEST(TcpStoreTest, TheHostsOfAllAgentsAreFoundInTheirState) {
  EXPECT_EQ(AgentHosts(kState), (std::vector<std::string>{"node0.cluster", "node1.cluster", "late.cluster"}));
}

TEST(TcpStoreTest, WhatIsNoStateNamesNobody) {
  for (const char* value : {"", "Y2FuaW1hZGFt", "no base64!", "AAAA"})
    EXPECT_TRUE(AgentHosts(value).empty()) << value;
}

TEST(TcpStoreTest, AStateThatIsCutOrChangedIsReadNoFurther) {
  const std::string pickle = *FromBase64(kState);
  for (std::size_t size = 0; size < pickle.size(); ++size) {
    EXPECT_LE(AgentHosts(ToBase64(pickle.substr(0, size))).size(), 3U);
    std::string changed = pickle;
    for (const char byte : {'\0', '\x8c', '\xff', 'h', 'X'}) {
      changed[size] = byte;
      (void)AgentHosts(ToBase64(changed));  // the sanitizers look
    }
  }
}

// One long text that is remembered and named again and again: each time it was copied once.
TEST(TcpStoreTest, AStateThatWouldNeedTerabytesIsReadNoFurther) {
  const std::string text(1 << 20, 'a');
  const std::string long_text = std::string("X\0\0\x10\0", 5) + text;
  EXPECT_TRUE(AgentHosts(ToBase64(long_text + std::string(1 << 20, '\x94'))).empty());
  std::string named = long_text + "\x94";
  for (int i = 0; i < 500'000; ++i) named += std::string("h\0", 2);
  EXPECT_TRUE(AgentHosts(ToBase64(named)).empty());
}

TEST(Base64Test, ThereAndBack) {
  for (const char* text : {"", "a", "ab", "abc", "abcd", "\x01\xff\x80"}) {
    const std::string bytes(text);
    EXPECT_EQ(FromBase64(ToBase64(bytes)), bytes);
  }
  EXPECT_EQ(ToBase64("probing"), "cHJvYmluZw==");
  EXPECT_FALSE(FromBase64("abc").has_value());
}

}  // namespace
}  // namespace probing::cluster
