#include "wire/node_list.h"

#include <gtest/gtest.h>

namespace probing::wire {
namespace {

std::string Written(std::string_view text) {
  const Result<std::vector<Address>> addresses = ParseAddresses(text);
  if (!addresses.ok()) return "error";
  std::string list;
  for (const Address& address : *addresses) list += (list.empty() ? "" : " ") + address.ToText();
  return list;
}

TEST(NodeListTest, EachAddressIsThereOnce) {
  EXPECT_EQ(Written("a:1,b:2,a:1"), "a:1 b:2");
  EXPECT_EQ(Written("[::1]:3344,10.0.0.1:3344"), "[::1]:3344 10.0.0.1:3344");
  EXPECT_EQ(Written(""), "");
}

TEST(NodeListTest, NodeListsOfSlurmAreExpanded) {
  EXPECT_EQ(Written("node[01-03,7]:3344"), "node01:3344 node02:3344 node03:3344 node7:3344");
  EXPECT_EQ(Written("a:1,gpu[9-11].rack:5"), "a:1 gpu9.rack:5 gpu10.rack:5 gpu11.rack:5");
}

TEST(NodeListTest, SeveralBracketsAreEveryOneOfEach) {
  EXPECT_EQ(Written("r[1-2]n[01-02]:5"), "r1n01:5 r1n02:5 r2n01:5 r2n02:5");
  EXPECT_EQ(Written("r[1-999]n[1-999]:5"), "error") << "too many";
}

TEST(NodeListTest, HostsHaveNoPorts) {
  const Result<std::vector<std::string>> hosts = ParseHosts("login,node[1-2],node2,10.0.0.7");
  ASSERT_TRUE(hosts.ok());
  EXPECT_EQ(*hosts, (std::vector<std::string>{"login", "node1", "node2", "10.0.0.7"}));
  for (const char* text : {"", "a b", "n[1-", "a,,b", "-oProxyCommand=x", "-v", "*"})
    EXPECT_FALSE(ParseHosts(text).ok()) << text;
}

TEST(NodeListTest, WhatIsNoListIsAnError) {
  for (const char* text :
       {"a", "a:1,,b:1", "n[1-:1", "n[]:1", "n[3-1]:1", "n[a-b]:1", "n[1-99999999]:1", "n[1-4]"})
    EXPECT_EQ(Written(text), "error") << text;
}

}  // namespace
}  // namespace probing::wire
