#include "why/model.h"

#include <gtest/gtest.h>

namespace probing::why {
namespace {

Node Thread(pid_t pid, std::vector<std::size_t> waits, End end = End::kWaits) {
  Node node;
  node.pid = pid;
  node.tid = pid;
  node.end = end;
  for (const std::size_t on : waits) node.waits.push_back({on, "pipe", true});
  return node;
}

std::vector<std::size_t> NodesOf(const Chain& chain) {
  std::vector<std::size_t> nodes;
  for (const Step& step : chain.steps) nodes.push_back(step.node);
  return nodes;
}

using Nodes = std::vector<std::size_t>;

TEST(Model, AChainEndsAtTheThreadThatRuns) {
  const Graph graph{{Thread(1, {1}), Thread(2, {2}), Thread(3, {}, End::kRuns)}};
  const Chain chain = Follow(graph, 0);
  EXPECT_EQ(NodesOf(chain), (Nodes{0, 1, 2}));
  EXPECT_EQ(chain.end, End::kRuns);
  EXPECT_EQ(chain.steps[0].reason, "");
  EXPECT_EQ(chain.steps[2].reason, "pipe");
}

TEST(Model, ACircleOfLocksIsADeadlock) {
  const Graph graph{{Thread(1, {1}), Thread(2, {2}), Thread(3, {1})}};
  const Chain chain = Follow(graph, 0);
  EXPECT_EQ(chain.end, End::kDeadlock);
  EXPECT_EQ(NodesOf(chain), (Nodes{0, 1, 2, 1}));
  EXPECT_EQ(chain.back_to, 1U);
}

TEST(Model, AnIdleWorkerThatWaitsForTheAskerIsNoDeadlock) {
  // 0 waits for any of its workers: 1 waits for 0, 2 runs.
  const Graph graph{{Thread(1, {1, 2}), Thread(2, {0}), Thread(3, {}, End::kRuns)}};
  EXPECT_EQ(NodesOf(Follow(graph, 0)), (Nodes{0, 2}));
  EXPECT_EQ(NodesOf(Follow(graph, 1)), (Nodes{1, 0, 2}));
}

TEST(Model, AStoppedProcessExplainsMoreThanOneThatRuns) {
  const Graph graph{{Thread(1, {1, 2}), Thread(2, {}, End::kRuns), Thread(3, {}, End::kStopped)}};
  EXPECT_EQ(NodesOf(Follow(graph, 0)), (Nodes{0, 2}));
}

TEST(Model, WhereAllAreNeededACircleSettlesIt) {
  Graph graph{{Thread(1, {1, 2}), Thread(2, {0}), Thread(3, {}, End::kRuns)}};
  graph.nodes[0].needs_all = true;
  EXPECT_EQ(Follow(graph, 0).end, End::kDeadlock);
  graph.nodes[1].waits[0].certain = false;  // perhaps no circle at all
  EXPECT_EQ(Follow(graph, 0).end, End::kRuns);
}

TEST(Model, AProcessIsItsFirstThreadUnlessThatIsIdle) {
  Node process = Thread(5, {2, 3});
  process.tid = 0;
  Graph graph{{Thread(1, {1}), process, Thread(5, {}, End::kSleeps), Thread(6, {}, End::kDied)}};
  EXPECT_EQ(NodesOf(Follow(graph, 0)), (Nodes{0, 1, 2}));
  graph.nodes[2].end = End::kIdle;
  EXPECT_EQ(NodesOf(Follow(graph, 0)), (Nodes{0, 1, 3}));
}

TEST(Model, AWaitForNothingKnownIsUnknown) {
  const Graph graph{{Thread(1, {})}};
  EXPECT_EQ(Follow(graph, 0).end, End::kUnknown);
  EXPECT_EQ(Follow(graph, 0).root(), 0U);
}

TEST(Model, TheAnswerDoesNotDependOnWhereACircleWasEntered) {
  // 0 → 1 ⇄ 2, and 2 may also go on by 3.
  const Graph graph{{Thread(1, {1}), Thread(2, {2}), Thread(3, {1, 3}), Thread(4, {}, End::kOutside)}};
  for (const std::size_t start : {0U, 1U, 2U}) EXPECT_EQ(Follow(graph, start).root(), 3U) << start;
}

TEST(Model, CausesForWhichMostWaitComeFirst) {
  const Graph graph{{Thread(9, {}, End::kRuns), Thread(1, {3}), Thread(2, {1}), Thread(3, {}, End::kDied),
                     Thread(4, {5}), Thread(5, {4})}};
  const std::vector<Cause> causes = GroupByCause(graph, {0, 1, 2, 3, 4, 5});
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_EQ(NodesOf(causes[0].longest), (Nodes{2, 1, 3}));
  EXPECT_EQ(causes[0].waiting, (Nodes{1, 2, 3}));
  EXPECT_EQ(causes[1].longest.end, End::kDeadlock);
  EXPECT_EQ(causes[1].waiting, (Nodes{4, 5}));
  EXPECT_EQ(causes[2].longest.root(), 0U);
}

TEST(Model, AnyGraphIsFollowedInBoundedTime) {
  // Everyone waits for everyone else: more ways than anyone can follow.
  Graph graph;
  for (int i = 0; i < 60; ++i) {
    graph.nodes.push_back(Thread(i + 1, {}));
    for (std::size_t on = 0; on < 60; ++on) {
      if (on != static_cast<std::size_t>(i)) graph.nodes.back().waits.push_back({on, "TCP", true});
    }
  }
  EXPECT_NE(Follow(graph, 0).end, End::kRuns);
}

}  // namespace
}  // namespace probing::why
