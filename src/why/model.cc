#include "why/model.h"

#include <algorithm>
#include <map>
#include <set>

namespace probing::why {
namespace {

// A graph of processes that are all connected has more ways than anyone can follow.
constexpr std::size_t kMaxVisits = 20'000;

class Follower {
 public:
  explicit Follower(const Graph& graph) : graph_(&graph) {}

  Chain From(std::size_t node) {
    std::size_t lowest = 0;
    return Visit(node, lowest);
  }

 private:
  // `lowest`: the first place on the path that the ways below came back to.
  Chain Visit(std::size_t index, std::size_t& lowest) {
    const Node& node = graph_->nodes[index];
    Chain best;
    best.steps = {{index, "", true}};
    best.end = node.end == End::kWaits ? End::kUnknown : node.end;
    if (node.end != End::kWaits || node.waits.empty() || ++visits_ > kMaxVisits) return best;
    path_.push_back(index);
    bool have = false;
    for (const Wait& wait : node.waits) {
      Chain way = Along(wait, index, lowest);
      // A process as a whole is its first thread, as long as that has something to say.
      const bool settled = node.tid == 0 && have && best.end != End::kIdle;
      if (!have || (!settled && IsBetter(way, best, node))) best = std::move(way);
      have = true;
    }
    path_.pop_back();
    return best;
  }

  Chain Along(const Wait& wait, std::size_t from, std::size_t& lowest) {
    Chain way;
    way.steps = {{from, "", true}};
    const auto before = std::find(path_.begin(), path_.end(), wait.on);
    if (before != path_.end()) {
      const auto place = static_cast<std::size_t>(before - path_.begin());
      lowest = std::min(lowest, place);
      way.end = End::kDeadlock;
      way.steps.push_back({wait.on, wait.reason, wait.certain});
      return way;
    }
    const auto known = known_.find(wait.on);
    const bool is_known = known != known_.end() && !Crosses(known->second);
    std::size_t below = path_.size();
    Chain rest = is_known ? known->second : Visit(wait.on, below);
    // A way that came back to a node above depends on how it got here.
    if (known == known_.end() && below >= path_.size()) known_[wait.on] = rest;
    lowest = std::min(lowest, below);
    rest.steps.front().reason = wait.reason;
    rest.steps.front().certain = wait.certain;
    way.steps.insert(way.steps.end(), rest.steps.begin(), rest.steps.end());
    way.end = rest.end;
    return way;
  }

  bool Crosses(const Chain& chain) const {
    return std::any_of(chain.steps.begin(), chain.steps.end(), [&](const Step& step) {
      return std::find(path_.begin(), path_.end(), step.node) != path_.end();
    });
  }

  static bool IsCertain(const Chain& chain) {
    return std::all_of(chain.steps.begin(), chain.steps.end(), [](const Step& step) { return step.certain; });
  }

  static bool IsBetter(const Chain& way, const Chain& than, const Node& node) {
    // Where all are needed one that cannot go on settles it; where one is enough a circle explains nothing.
    const auto weight = [&](const Chain& chain) {
      const bool is_circle = node.needs_all && chain.end == End::kDeadlock && IsCertain(chain);
      return is_circle ? -1 : static_cast<int>(chain.end);
    };
    return weight(way) < weight(than);
  }

  const Graph* graph_;
  std::vector<std::size_t> path_;
  std::map<std::size_t, Chain> known_;
  std::size_t visits_ = 0;
};

// The last step of a circle repeats an earlier one.
void CloseCircle(Chain& chain) {
  if (chain.end != End::kDeadlock) return;
  const std::size_t last = chain.steps.back().node;
  for (std::size_t i = 0; i + 1 < chain.steps.size(); ++i) {
    if (chain.steps[i].node == last) {
      chain.back_to = i;
      return;
    }
  }
}

// The same cause has the same key. A circle is all of its nodes.
std::set<std::size_t> KeyOf(const Graph& graph, const Chain& chain) {
  if (chain.end != End::kDeadlock) return {chain.root()};
  std::set<std::size_t> key;
  for (std::size_t i = chain.back_to; i < chain.steps.size(); ++i) {
    if (graph.nodes[chain.steps[i].node].tid != 0) key.insert(chain.steps[i].node);
  }
  return key;
}

}  // namespace

const char* EndName(End end) {
  switch (end) {
    case End::kDied:
      return "died";
    case End::kStopped:
      return "stopped";
    case End::kRuns:
      return "runs";
    case End::kKernel:
      return "kernel";
    case End::kSleeps:
      return "sleeps";
    case End::kOutside:
      return "outside";
    case End::kIdle:
      return "idle";
    case End::kDeadlock:
      return "deadlock";
    case End::kUnknown:
    case End::kWaits:
      break;
  }
  return "unknown";
}

Chain Follow(const Graph& graph, std::size_t start) {
  Chain chain = Follower(graph).From(start);
  CloseCircle(chain);
  return chain;
}

std::vector<Cause> GroupByCause(const Graph& graph, const std::vector<std::size_t>& starts) {
  std::map<std::set<std::size_t>, Cause> causes;
  for (const std::size_t start : starts) {
    Chain chain = Follow(graph, start);
    Cause& cause = causes[KeyOf(graph, chain)];
    cause.waiting.push_back(start);
    if (chain.steps.size() > cause.longest.steps.size()) cause.longest = std::move(chain);
  }
  std::vector<Cause> sorted;
  for (auto& [key, cause] : causes) {
    std::ranges::sort(cause.waiting, {}, [&](std::size_t i) { return graph.nodes[i].pid; });
    sorted.push_back(std::move(cause));
  }
  std::ranges::stable_sort(sorted, [&](const Cause& a, const Cause& b) {
    const auto weight = [](const Cause& cause) {
      return std::pair(cause.longest.steps.size() > 1, cause.waiting.size());
    };
    return weight(a) > weight(b);
  });
  return sorted;
}

}  // namespace probing::why
