#include "heap/dominators.h"

#include <gtest/gtest.h>

#include <random>

namespace probing::heap {
namespace {

using Adjacency = std::vector<std::vector<std::uint32_t>>;

Dominators Find(const Adjacency& adjacency) {
  return FindDominators(adjacency.size(), [&](std::uint32_t node) { return std::span(adjacency[node]); });
}

// Every node that can be reached from the root without `removed`.
std::vector<bool> ReachedWithout(const Adjacency& adjacency, std::uint32_t removed) {
  std::vector<bool> reached(adjacency.size());
  std::vector<std::uint32_t> queue;
  if (removed != 0) queue.push_back(0);
  if (removed != 0) reached[0] = true;
  while (!queue.empty()) {
    const std::uint32_t node = queue.back();
    queue.pop_back();
    for (const std::uint32_t target : adjacency[node]) {
      if (target == removed || reached[target]) continue;
      reached[target] = true;
      queue.push_back(target);
    }
  }
  return reached;
}

TEST(Dominators, WhatTwoHoldIsHeldByWhatHoldsThem) {
  const Adjacency adjacency{{1}, {2, 3}, {4}, {4}, {}};
  EXPECT_EQ(Find(adjacency).parent, (std::vector<std::uint32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(RetainedBytes(Find(adjacency), {0, 1, 10, 100, 1000}),
            (std::vector<std::uint64_t>{1111, 1111, 10, 100, 1000}));
}

TEST(Dominators, WhatIsNotReachedIsItsOwn) {
  EXPECT_EQ(Find({{}, {2}, {1}}).parent, (std::vector<std::uint32_t>{0, 1, 2}));
}

// A node dominates another one if that cannot be reached without it: the definition, tried out.
TEST(Dominators, AreThoseOfTheDefinitionInRandomGraphs) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::uint32_t>(2 + random() % 14);
    Adjacency adjacency(count);
    const auto edges = random() % (3 * count);
    for (std::uint32_t i = 0; i < edges; ++i) {
      adjacency[random() % count].push_back(static_cast<std::uint32_t>(random() % count));
    }
    const Dominators found = Find(adjacency);
    const std::vector<bool> all = ReachedWithout(adjacency, count);
    for (std::uint32_t node = 1; node < count; ++node) {
      if (!all[node]) {
        EXPECT_EQ(found.parent[node], node);
        continue;
      }
      std::vector<bool> dominates(count);
      for (std::uint32_t at = node; at != 0; at = found.parent[at]) dominates[found.parent[at]] = true;
      for (std::uint32_t other = 0; other < count; ++other) {
        if (other == node || !all[other]) continue;
        EXPECT_EQ(dominates[other], !ReachedWithout(adjacency, other)[node]) << round << ": " << other;
      }
    }
  }
}

}  // namespace
}  // namespace probing::heap
