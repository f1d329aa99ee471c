#include "flame/tree.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/ranges.h"
#include "flame/palette.h"

namespace probing::flame {
namespace {

// Functions are the same when everything is that the label could show.
using Identity = std::tuple<FrameKind, std::string_view, std::string_view, int>;

class Builder {
 public:
  Builder(const Profile& profile, const View& view) : profile_(profile), view_(view) {
    entry_by_frame_.resize(profile.frames().size());
    for (std::size_t i = 0; i < entry_by_frame_.size(); ++i)
      entry_by_frame_[i] = EntryOf(profile.frames()[i]);
  }

  Tree Build() {
    const std::size_t root = AddEntry({FrameKind::kGroup, "all", ""});
    nodes_.push_back({.entry = root});
    for (const FoldedStack& folded : Fold(profile_, view_)) Insert(folded, &Node::ticks, &Node::idle_ticks);
    if (!view_.against.empty()) {
      tree_.is_compared = true;
      View against = view_;
      against.ranks = view_.against;
      for (const FoldedStack& folded : Fold(profile_, against))
        Insert(folded, &Node::ticks_against, &Node::idle_against);
    }
    Place();
    return std::move(tree_);
  }

 private:
  struct Node {
    std::size_t entry;
    std::uint64_t ticks = 0;
    std::uint64_t idle_ticks = 0;
    std::uint64_t ticks_against = 0;  // of those it is compared with
    std::uint64_t idle_against = 0;
    std::set<std::int64_t> ranks{};
    std::map<std::size_t, std::size_t> children{};  // entry → node

    double Change(const Node& root) const {
      const auto share = [](std::uint64_t part, std::uint64_t all) {
        return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
      };
      return share(ticks, root.ticks) - share(ticks_against, root.ticks_against);
    }
  };
  using Count = std::uint64_t Node::*;

  std::size_t AddEntry(const Frame& frame) {
    tree_.entries.push_back({Label(view_, frame), frame.file, ColourName(frame)});
    return tree_.entries.size() - 1;
  }

  // `frame` must live as long as the builder.
  std::size_t EntryOf(const Frame& frame) {
    const Identity identity{frame.kind, frame.function, frame.file,
                            view_.by_line ? frame.line : frame.first_line};
    const auto [found, is_new] = entry_ids_.try_emplace(identity, 0);
    if (is_new) found->second = AddEntry(frame);
    return found->second;
  }

  const std::vector<std::size_t>& GroupEntries(ThreadId thread) {
    const auto [found, is_new] = group_entries_.try_emplace(thread);
    if (is_new) {
      for (const Frame& group : GroupsOf(view_, profile_.threads()[thread])) {
        const auto [known, is_new_name] = group_ids_.try_emplace(group.function, 0);
        if (is_new_name) known->second = AddEntry(group);
        found->second.push_back(known->second);
      }
    }
    return found->second;
  }

  std::size_t Child(std::size_t node, std::size_t entry) {
    const auto [found, is_new] = nodes_[node].children.try_emplace(entry, nodes_.size());
    const std::size_t child = found->second;
    if (is_new) nodes_.push_back({.entry = entry});
    return child;
  }

  void Insert(const FoldedStack& folded, Count ticks, Count idle_ticks) {
    std::vector<std::size_t> path{0};
    for (const std::size_t entry : GroupEntries(folded.thread)) path.push_back(Child(path.back(), entry));
    for (const FrameId frame : profile_.FramesOf(folded.stack))
      path.push_back(Child(path.back(), entry_by_frame_[frame]));
    const std::optional<std::int64_t>& rank = profile_.threads()[folded.thread].rank;
    for (const std::size_t each : path) {
      nodes_[each].*ticks += folded.ticks;
      nodes_[each].*idle_ticks += folded.idle_ticks;
      if (rank) nodes_[each].ranks.insert(*rank);
    }
  }

  // Without recursion: stacks may be thousands of frames deep.
  void Place() {
    tree_.total_ticks = nodes_[0].ticks;
    struct Pending {
      std::size_t node;
      std::size_t depth;
      std::uint64_t start;
    };
    std::vector<Pending> pending{{0, 0, 0}};
    while (!pending.empty()) {
      const Pending now = pending.back();
      pending.pop_back();
      const Node& node = nodes_[now.node];
      const bool idle = node.ticks > 0 && node.idle_ticks == node.ticks;
      tree_.boxes.push_back({node.entry, now.depth, now.start, node.ticks, idle, Ranges(node.ranks),
                             tree_.is_compared ? node.Change(nodes_[0]) : 0});
      tree_.depth = std::max(tree_.depth, now.depth);
      std::vector<std::size_t> children;
      for (const auto& [entry, child] : node.children) {
        if (nodes_[child].ticks > 0) children.push_back(child);  // the others have been in the rest
      }
      std::sort(children.begin(), children.end(), [&](std::size_t a, std::size_t b) {
        const Entry& left = tree_.entries[nodes_[a].entry];
        const Entry& right = tree_.entries[nodes_[b].entry];
        return std::tie(left.label, left.file) < std::tie(right.label, right.file);
      });
      std::uint64_t start = now.start;
      const std::size_t first = pending.size();
      for (const std::size_t child : children) {
        pending.push_back({child, now.depth + 1, start});
        start += nodes_[child].ticks;
      }
      std::reverse(pending.begin() + static_cast<std::ptrdiff_t>(first), pending.end());
    }
  }

  const Profile& profile_;
  const View& view_;
  Tree tree_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> entry_by_frame_;
  std::map<Identity, std::size_t> entry_ids_;
  std::map<std::string, std::size_t> group_ids_;
  std::map<ThreadId, std::vector<std::size_t>> group_entries_;
};

}  // namespace

Tree BuildTree(const Profile& profile, const View& view) { return Builder(profile, view).Build(); }

}  // namespace probing::flame
