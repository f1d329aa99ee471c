#include "heap/dominators.h"

#include <algorithm>

namespace probing::heap {
namespace {

constexpr std::uint32_t kUnseen = UINT32_MAX;

// Numbers nodes in the order in which a depth-first search meets them. From here on a node is its number.
struct Search {
  std::vector<std::uint32_t> number;  // by node; kUnseen: not reached
  std::vector<std::uint32_t> node;    // by number
  std::vector<std::uint32_t> parent;  // by number
};

Search SearchFrom(std::size_t count, const TargetsOf& targets) {
  Search search;
  search.number.assign(count, kUnseen);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stack{{0, 0}};  // a node, the number of its parent
  while (!stack.empty()) {
    const auto [node, parent] = stack.back();
    stack.pop_back();
    if (search.number[node] != kUnseen) continue;
    const auto number = static_cast<std::uint32_t>(search.node.size());
    search.number[node] = number;
    search.node.push_back(node);
    search.parent.push_back(parent);
    for (const std::uint32_t target : targets(node)) {
      if (search.number[target] == kUnseen) stack.emplace_back(target, number);
    }
  }
  return search;
}

// What refers to each number, one after the other.
struct Sources {
  std::vector<std::size_t> starts;
  std::vector<std::uint32_t> numbers;

  Sources(const Search& search, const TargetsOf& targets) : starts(search.node.size() + 1) {
    for (const std::uint32_t node : search.node) {
      for (const std::uint32_t target : targets(node)) ++starts[search.number[target] + 1];
    }
    for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
    numbers.resize(starts.back());
    std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
    for (std::uint32_t number = 0; number < search.node.size(); ++number) {
      for (const std::uint32_t target : targets(search.node[number]))
        numbers[next[search.number[target]]++] = number;
    }
  }
};

// Remembers the least semidominator on the way up, and shortens that way.
class Forest {
 public:
  explicit Forest(const std::vector<std::uint32_t>& parent)
      : ancestor_(parent), semi_(parent.size()), label_(parent.size()) {
    for (std::uint32_t i = 0; i < label_.size(); ++i) semi_[i] = label_[i] = i;
  }

  std::uint32_t& semi(std::uint32_t number) { return semi_[number]; }

  // Of those from `number` up that are linked: `first_linked` or more.
  std::uint32_t LeastSemi(std::uint32_t number, std::uint32_t first_linked) {
    if (ancestor_[number] < first_linked) return semi_[label_[number]];
    std::uint32_t at = number;
    do {
      way_.push_back(at);
      at = ancestor_[at];
    } while (ancestor_[at] >= first_linked);
    std::uint32_t above = at;
    while (!way_.empty()) {
      const std::uint32_t below = way_.back();
      way_.pop_back();
      ancestor_[below] = ancestor_[above];
      if (semi_[label_[above]] < semi_[label_[below]]) label_[below] = label_[above];
      above = below;
    }
    return semi_[label_[number]];
  }

 private:
  std::vector<std::uint32_t> ancestor_, semi_, label_, way_;
};

}  // namespace

Dominators FindDominators(std::size_t count, const TargetsOf& targets) {
  const Search search = SearchFrom(count, targets);
  const Sources sources(search, targets);
  Forest forest(search.parent);
  const auto reached = static_cast<std::uint32_t>(search.node.size());
  for (std::uint32_t number = reached; number-- > 1;) {
    std::uint32_t least = search.parent[number];
    for (std::size_t i = sources.starts[number]; i < sources.starts[number + 1]; ++i)
      least = std::min(least, forest.LeastSemi(sources.numbers[i], number + 1));
    forest.semi(number) = least;
  }
  std::vector<std::uint32_t> dominator = search.parent;
  for (std::uint32_t number = 1; number < reached; ++number) {
    while (dominator[number] > forest.semi(number)) dominator[number] = dominator[dominator[number]];
  }
  Dominators result;
  result.parent.resize(count);
  for (std::uint32_t node = 0; node < count; ++node) result.parent[node] = node;
  for (std::uint32_t number = 1; number < reached; ++number)
    result.parent[search.node[number]] = search.node[dominator[number]];
  result.order = search.node;
  return result;
}

std::vector<std::uint64_t> RetainedBytes(const Dominators& dominators, std::vector<std::uint64_t> own_bytes) {
  for (std::size_t i = dominators.order.size(); i-- > 1;) {
    const std::uint32_t node = dominators.order[i];
    own_bytes[dominators.parent[node]] += own_bytes[node];
  }
  return own_bytes;
}

}  // namespace probing::heap
