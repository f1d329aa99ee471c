#include "wire/address.h"

#include <gtest/gtest.h>

#include <map>

namespace probing::wire {
namespace {

std::string Parsed(std::string_view text) {
  const Result<Address> address = ParseAddress(text);
  return address.ok() ? address->ToText() : "refused";
}

TEST(Address, AsPeopleWriteThem) {
  EXPECT_EQ(Parsed("127.0.0.1:3344"), "127.0.0.1:3344");
  EXPECT_EQ(Parsed("[::1]:3344"), "[::1]:3344");
  EXPECT_EQ(Parsed("node-7.cluster:80"), "node-7.cluster:80");
  EXPECT_EQ(Parsed("*:3344"), "0.0.0.0:3344");
}

TEST(Address, APortAloneIsOfThisMachineOnly) {
  EXPECT_EQ(Parsed("3344"), "127.0.0.1:3344");
  EXPECT_EQ(Parsed(":3344"), "127.0.0.1:3344");
}

TEST(Address, NonsenseIsRefused) {
  for (const char* text : {"", ":", "host", "host:", "host:0", "host:65536", "host:12x", "a b:1", "[::1:3",
                           "[127.0.0.1]:3", "::1:3344", "ho/st:1", "host:-1", "host: 1"}) {
    EXPECT_EQ(Parsed(text), "refused") << text;
  }
}

TEST(Address, LiteralsAreWrittenOneWayOnly) {
  EXPECT_TRUE(IsIpLiteral("10.0.2.5"));
  EXPECT_TRUE(IsIpLiteral("fe80::1"));
  for (const char* text : {"10.0.2.555", "0177.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "127.0.0.1.evil"})
    EXPECT_FALSE(IsIpLiteral(text)) << text;
}

TEST(Address, Loopback) {
  for (const char* text : {"127.0.0.1", "127.3.4.5", "::1", "localhost", "LocalHost"})
    EXPECT_TRUE(IsLoopback(text)) << text;
  for (const char* text : {"localhost6", "127.0.0.1.evil", "127.evil", "10.0.0.1", "", "::2"})
    EXPECT_FALSE(IsLoopback(text)) << text;
}

std::string FromVariables(std::map<std::string, std::string> variables) {
  const auto address = AddressFromVariables([&](const char* name) { return variables[name]; });
  if (!address) return "none";
  return address->ok() ? (*address)->ToText() : "refused";
}

TEST(Address, FromVariables) {
  EXPECT_EQ(FromVariables({}), "none");
  EXPECT_EQ(FromVariables({{"PROBE_ADDR", "127.0.0.1:3344"}}), "127.0.0.1:3344");
  EXPECT_EQ(FromVariables({{"PROBING_PORT", "9000"}}), "127.0.0.1:9000");
  EXPECT_EQ(FromVariables({{"PROBING_ADDR", "10.0.0.1"}, {"PROBING_PORT", "9000"}}), "10.0.0.1:9000");
  EXPECT_EQ(FromVariables({{"PROBING_ADDR", "10.0.0.1"}}), "refused");
  EXPECT_EQ(FromVariables({{"PROBING_ADDR", "9000"}}), "127.0.0.1:9000");
}

}  // namespace
}  // namespace probing::wire
