#include "heap/summary.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace probing::heap {
namespace {

// A holder of which one child keeps so much is only on the way to that child.
constexpr std::uint64_t kShareOfOneChild = 4;  // a quarter
constexpr std::uint64_t kWorthLooking = 4096;  // bytes
constexpr std::size_t kMaxLooked = 1 << 16;
constexpr std::size_t kShownOfHeld = 3;

constexpr std::uint32_t kNoLabel = UINT32_MAX;

class Summary {
 public:
  Summary(Graph& graph, const cpython::Location& location, const Options& options)
      : graph_(graph),
        options_(options),
        chains_(graph, location),
        dominators_(
            FindDominators(graph.nodes().size(), [&](std::uint32_t node) { return graph.Targets(node); })) {
    const std::vector<Node>& nodes = graph.nodes();
    std::vector<std::uint64_t> own(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) own[i] = nodes[i].own_bytes;
    retained_ = RetainedBytes(dominators_, std::move(own));
    // Children in the tree of dominators, one after the other.
    starts_.resize(nodes.size() + 1);
    for (std::size_t i = 1; i < dominators_.order.size(); ++i)
      ++starts_[dominators_.parent[dominators_.order[i]] + std::size_t{1}];
    for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    children_.resize(starts_.back());
    std::vector<std::size_t> next(starts_.begin(), starts_.end() - 1);
    for (std::size_t i = 1; i < dominators_.order.size(); ++i) {
      const std::uint32_t node = dominators_.order[i];
      children_[next[dominators_.parent[node]]++] = node;
    }
    LabelNodes();
  }

  void Fill(Report& report) {
    CountClasses(report);
    for (const std::uint32_t node : FindHolders()) report.holders.push_back(ToHolder(node));
  }

 private:
  std::span<const std::uint32_t> ChildrenOf(std::uint32_t node) const {
    return std::span(children_).subspan(starts_[node], starts_[node + std::size_t{1}] - starts_[node]);
  }

  // Classes of the same name are one line, and so are storages on the same device.
  void LabelNodes() {
    std::unordered_map<std::string, std::uint32_t> known;
    const auto label_of = [&](const std::string& name) {
      const auto [found, is_new] = known.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
      if (is_new) names_.push_back(name);
      return found->second;
    };
    std::vector<std::uint32_t> of_type(graph_.types().size());
    for (std::uint32_t i = 0; i < of_type.size(); ++i) of_type[i] = label_of(graph_.types()[i].name);
    const std::vector<Node>& nodes = graph_.nodes();
    labels_.assign(nodes.size(), kNoLabel);
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == NodeKind::kObject) labels_[i] = of_type[nodes[i].type];
      if (nodes[i].kind == NodeKind::kStorage)
        labels_[i] = label_of("storage of tensors on " + graph_.DeviceOf(i));
    }
  }

  void CountClasses(Report& report) {
    std::vector<ClassUse> classes(names_.size());
    for (std::size_t i = 0; i < names_.size(); ++i) classes[i].name = names_[i];
    const std::vector<Node>& nodes = graph_.nodes();
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      if (labels_[i] == kNoLabel) continue;
      ClassUse& use = classes[labels_[i]];
      ++use.count;
      use.own_bytes += nodes[i].own_bytes;
      if (nodes[i].is_tracked) ++use.tracked;
      if (nodes[i].kind == NodeKind::kStorage) {
        report.storage_bytes[graph_.DeviceOf(i)] += nodes[i].own_bytes;
      } else {
        ++report.objects;
        report.object_bytes += nodes[i].own_bytes;
        if (nodes[i].is_tracked) ++report.tracked;
      }
    }
    AddRetained(classes);
    std::erase_if(classes, [](const ClassUse& use) { return use.count == 0; });
    report.class_count = classes.size();
    std::sort(classes.begin(), classes.end(), [](const ClassUse& a, const ClassUse& b) {
      return std::tie(b.own_bytes, b.count, a.name) < std::tie(a.own_bytes, a.count, b.name);
    });
    if (options_.top != 0 && classes.size() > options_.top) classes.resize(options_.top);
    report.classes = std::move(classes);
  }

  // What an object inside another one of its class retains is part of that already.
  void AddRetained(std::vector<ClassUse>& classes) const {
    std::vector<std::uint32_t> open(names_.size());
    struct Visit {
      std::uint32_t node;
      std::size_t next;
    };
    std::vector<Visit> stack;
    const auto enter = [&](std::uint32_t node) {
      const std::uint32_t label = labels_[node];
      if (label != kNoLabel && open[label]++ == 0) classes[label].retained_bytes += retained_[node];
      stack.push_back({node, starts_[node]});
    };
    enter(Graph::kRootNode);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::uint32_t label = labels_[visit.node];
      if (visit.next < starts_[visit.node + std::size_t{1}]) {
        const std::uint32_t child = children_[visit.next++];
        if (starts_[child] == starts_[child + std::size_t{1}]) {  // without children: no need to go there
          const std::uint32_t its = labels_[child];
          if (its != kNoLabel && open[its] == 0) classes[its].retained_bytes += retained_[child];
          continue;
        }
        enter(child);
        continue;
      }
      if (label != kNoLabel) --open[label];
      stack.pop_back();
    }
  }

  // What is there anyway and has parts with names: they are told one by one.
  bool IsOnlyAPlace(std::uint32_t number) const {
    const Node& node = graph_.nodes()[number];
    if (node.kind == NodeKind::kHeldFromC || node.kind == NodeKind::kGarbageCycle ||
        node.kind == NodeKind::kStorage)
      return false;
    if (node.kind != NodeKind::kObject) return true;
    const Shape shape = graph_.types()[node.type].shape;
    if (shape == Shape::kModule || shape == Shape::kClass) return true;
    const Node& owner = graph_.nodes()[dominators_.parent[number]];
    if (shape != Shape::kDict || owner.kind != NodeKind::kObject) return false;
    const Shape above = graph_.types()[owner.type].shape;
    return above == Shape::kModule || above == Shape::kClass;
  }

  // From the root down: whatever holds much by itself, and not through one thing that does.
  std::vector<std::uint32_t> FindHolders() const {
    const auto is_less = [&](std::uint32_t a, std::uint32_t b) {
      return std::tie(retained_[a], b) < std::tie(retained_[b], a);
    };
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(is_less)> queue(is_less);
    queue.push(Graph::kRootNode);
    std::vector<std::uint32_t> holders;
    const std::size_t wanted = options_.top == 0 ? kMaxLooked : options_.top;
    for (std::size_t i = 0; i < kMaxLooked && !queue.empty() && holders.size() < wanted; ++i) {
      const std::uint32_t node = queue.top();
      queue.pop();
      std::uint64_t biggest = 0;
      for (const std::uint32_t child : ChildrenOf(node)) {
        if (graph_.nodes()[child].kind != NodeKind::kStorage) biggest = std::max(biggest, retained_[child]);
      }
      if (!IsOnlyAPlace(node) && biggest < retained_[node] / kShareOfOneChild) {
        holders.push_back(node);
        continue;
      }
      for (const std::uint32_t child : ChildrenOf(node)) {
        if (retained_[child] >= kWorthLooking) queue.push(child);
      }
    }
    return holders;
  }

  Holder ToHolder(std::uint32_t node) {
    Holder holder;
    holder.what = chains_.Describe(node);
    holder.own_bytes = graph_.nodes()[node].own_bytes;
    holder.retained_bytes = retained_[node];
    holder.chain = chains_.Write(node);
    std::unordered_map<std::uint32_t, ClassUse> held;
    std::vector<std::uint32_t> stack{node};
    while (!stack.empty()) {
      const std::uint32_t at = stack.back();
      stack.pop_back();
      for (const std::uint32_t child : ChildrenOf(at)) stack.push_back(child);
      if (at == node || labels_[at] == kNoLabel) continue;
      ClassUse& use = held[labels_[at]];
      ++use.count;
      use.own_bytes += graph_.nodes()[at].own_bytes;
    }
    for (auto& [label, use] : held) {
      use.name = names_[label];
      holder.holds.push_back(std::move(use));
    }
    std::sort(holder.holds.begin(), holder.holds.end(), [](const ClassUse& a, const ClassUse& b) {
      return std::tie(b.own_bytes, b.count, a.name) < std::tie(a.own_bytes, a.count, b.name);
    });
    if (holder.holds.size() > kShownOfHeld) holder.holds.resize(kShownOfHeld);
    return holder;
  }

  Graph& graph_;
  const Options& options_;
  ChainWriter chains_;
  Dominators dominators_;
  std::vector<std::uint64_t> retained_;
  std::vector<std::size_t> starts_;
  std::vector<std::uint32_t> children_;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> labels_;  // of nodes: indexes in names_
};

}  // namespace

void Summarize(Graph& graph, const cpython::Location& location, const Options& options, Report& report) {
  Summary(graph, location, options).Fill(report);
}

}  // namespace probing::heap
