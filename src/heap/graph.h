// The objects of a target and what refers to what.
//
// Node 0 is the root: it refers to modules, threads, the interpreter's own state, static classes and, when
// all of those are followed, to what only C code or nothing at all holds. Collect() reads it all; the rest
// computes on what was read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cpython/states.h"
#include "heap/references.h"

namespace probing::heap {

enum class NodeKind : std::uint8_t {
  kObject,
  kRoot,
  kThread,       // `address` is its state
  kFrame,        // of a running thread, since Python 3.11
  kInterpreter,  // what its state refers to
  kStorage,      // of tensors
  kHeldFromC,    // groups of objects of one class: `type` says which
  kGarbageCycle,
};

struct Node {
  std::uint64_t address = 0;
  std::uint64_t own_bytes = 0;
  std::uint32_t type = TypeTable::kNone;
  NodeKind kind = NodeKind::kObject;
  bool is_tracked = false;  // in the collector's lists
};

struct Limits {
  std::size_t nodes = std::size_t{1} << 25U;
  std::size_t edges = std::size_t{1} << 28U;
  std::int64_t milliseconds = 60'000;
};

// The nodes that a node refers to.
class Edges {
 public:
  std::span<const std::uint32_t> Of(std::uint32_t node) const {
    return std::span(targets_).subspan(starts_[node], starts_[node + 1] - starts_[node]);
  }
  void Begin(std::size_t nodes) { starts_.reserve(nodes + 1); }
  // REQUIRES: nodes in the order of their numbers.
  void Add(std::uint32_t target) { targets_.push_back(target); }
  void EndNode() { starts_.push_back(targets_.size()); }
  std::size_t size() const { return targets_.size(); }
  std::size_t node_count() const { return starts_.size() - 1; }

 private:
  std::vector<std::size_t> starts_{0};
  std::vector<std::uint32_t> targets_;
};

// Not thread-safe. Lifetime: all that it is given must outlive it.
class Graph {
 public:
  Graph(const process::Memory& memory, const process::Maps& maps, const cpython::Location& location,
        const Limits& limits);

  // Fails when the objects of this Python cannot be listed.
  Result<void> Collect();

  const std::vector<Node>& nodes() const { return nodes_; }
  // What a node refers to; of the root, all that is held by nothing else.
  std::span<const std::uint32_t> Targets(std::uint32_t node) const {
    return node == kRootNode      ? std::span<const std::uint32_t>(roots_)
           : node >= first_group_ ? std::span<const std::uint32_t>(groups_[node - first_group_])
                                  : edges_.Of(node);
  }
  // The node through which each was reached first, from the root on. kUnreached never remains.
  const std::vector<std::uint32_t>& parents() const { return parents_; }

  // The reference that leads from one to the other; nothing when neither of them has it any more.
  std::optional<Reference> FindReference(std::uint32_t from, std::uint32_t to);

  const Chunks& memory() const { return memory_; }
  const TypeTable& types() const { return types_; }
  const ReferenceReader& references() const { return references_; }
  const std::vector<cpython::InterpreterState>& interpreters() const { return interpreters_; }
  // Indexes in types(); TypeTable::kNone when there is none.
  std::uint32_t TypeOfObject(std::uint64_t object) { return types_.OfObject(object); }
  std::uint32_t FindType(std::uint64_t address) { return types_.Find(address); }
  // By the address of a storage.
  const std::string& DeviceOf(std::uint32_t node) const { return devices_.at(node); }

  std::size_t reference_count() const { return edges_.size(); }
  std::size_t unread_objects() const { return unread_; }
  // The class of the first of them; empty when it is not known.
  const std::string& first_unread() const { return first_unread_; }
  // Why something may be missing; empty when all was seen.
  const std::string& not_all() const { return not_all_; }

  static constexpr std::uint32_t kRootNode = 0;
  static constexpr std::uint32_t kUnreached = UINT32_MAX;

 private:
  std::uint32_t Find(std::uint64_t address) const;
  // kUnreached: there are too many.
  std::uint32_t AddNode(const Node& node);
  // The node of an object, made if need be; kUnreached: there is none.
  std::uint32_t ObjectAt(std::uint64_t address);
  std::uint32_t ObjectInState(std::uint64_t address);
  void GrowIndex();

  Result<void> AddTracked();
  void AddModules(const cpython::InterpreterState& interpreter);
  void AddThreads(const cpython::InterpreterState& interpreter);
  void ReadContents(std::uint32_t node);
  void FollowAll();
  void Spread(std::vector<std::uint32_t> from);
  void AddHeldFromC();
  void AddGarbage();
  void AddToGroup(NodeKind kind, std::uint32_t node);
  bool PassedLimits();

  const process::Memory* raw_;
  Chunks memory_;
  const cpython::Location& location_;
  cpython::ObjectLayout layout_;
  Limits limits_;
  Deadline deadline_;
  TypeTable types_;
  ReferenceReader references_;
  std::vector<cpython::InterpreterState> interpreters_;

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> index_;  // a hash table of numbers of nodes, by their addresses
  Edges edges_;
  std::vector<std::uint32_t> roots_;
  std::vector<std::uint32_t> parents_;
  std::uint32_t first_group_ = UINT32_MAX;
  std::vector<std::vector<std::uint32_t>> groups_;
  std::map<std::pair<NodeKind, std::uint32_t>, std::uint32_t> group_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> module_of_dict_;  // by address: the module's node
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> frames_of_thread_;
  std::unordered_map<std::uint32_t, std::string> devices_;
  Contents contents_;
  std::size_t unread_ = 0;
  std::string first_unread_;
  std::string not_all_;
};

}  // namespace probing::heap
