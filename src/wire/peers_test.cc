#include "wire/peers.h"

#include <gtest/gtest.h>

namespace probing::wire {
namespace {

std::string Written(std::string_view text) {
  const Result<std::vector<PeerSource>> sources = ParsePeers(text);
  if (!sources.ok()) return "error";
  std::string list;
  for (const PeerSource& source : *sources) list += (list.empty() ? "" : " ") + source.ToText();
  return list;
}

TEST(PeersTest, EveryFormIsWrittenAsItIsRead) {
  for (const char* text : {"a:1", "[::1]:3344", "slurm", "dns:workers.training:3344", "tcpstore",
                           "tcpstore:10.0.0.1:29500", "tcpstore:[fd00::1]:29500", "etcd:e:2379/jobs/1"})
    EXPECT_EQ(Written(text), text);
  EXPECT_EQ(Written("none"), "");
  EXPECT_EQ(Written(""), "");
}

TEST(PeersTest, FormsStandTogetherAndEachOnce) {
  EXPECT_EQ(Written("slurm,n[1-2]:5,slurm,dns:x:1,n2:5"), "slurm n1:5 n2:5 dns:x:1");
}

TEST(PeersTest, WhatIsNoFormIsAnErrorThatSaysWhichAndHow) {
  for (const char* text : {"slurm:1", "dns:", "dns:x", "dns:3344", "dns:*:1", "tcpstore:x:y", "etcd:x:1",
                           "etcd:x:1/", "etcd:1/a", "etcd:x:1/a b", "zookeeper:x:1", "a", "a:1,,b:1"})
    EXPECT_EQ(Written(text), "error") << text;
  const Result<std::vector<PeerSource>> sources = ParsePeers("slurm,dns:x");
  ASSERT_FALSE(sources.ok());
  EXPECT_NE(sources.error().message.find("\"dns:x\""), std::string::npos);
  EXPECT_NE(sources.error().hint.find("dns:NAME:PORT"), std::string::npos);
}

}  // namespace
}  // namespace probing::wire
