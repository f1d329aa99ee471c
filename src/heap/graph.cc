#include "heap/graph.h"

#include <algorithm>

#include "base/clock.h"
#include "cpython/attributes.h"
#include "cpython/containers.h"
#include "cpython/frame_chain.h"
#include "cpython/tracked_objects.h"

namespace probing::heap {
namespace {

using cpython::InterpreterState;
using process::RemoteAddress;

constexpr std::uint64_t kThreadStateBytes = 512;      // enough of a PyThreadState, whose size is not known
constexpr std::uint64_t kInterpreterStateBytes = 32;  // of a PyInterpreterState, from sys.modules on
constexpr std::size_t kMaxDepth = 4096;               // frames of a thread
constexpr std::size_t kMaxModules = 1 << 16;
constexpr std::size_t kCheckTimeEvery = 1 << 12;
constexpr int kFirstSupported = 7;
constexpr int kLastSupported = 13;  // 3.14 was not tested
constexpr int kLastWithOneCollector = 8;
constexpr int kFirstWithFramesThatAreNoObjects = 11;
constexpr int kFirstWithImmortalObjects = 12;

std::size_t HashOf(std::uint64_t address) { return (address >> 3U) * 0x9e3779b97f4a7c15U; }

}  // namespace

Graph::Graph(const process::Memory& memory, const process::Maps& maps, const cpython::Location& location,
             const Limits& limits)
    : raw_(&memory),
      memory_(memory, maps),
      location_(location),
      layout_(cpython::ObjectLayout::Of(location)),
      limits_(limits),
      deadline_(Deadline::AfterMs(limits.milliseconds)),
      types_(memory_, location),
      references_(memory_, location) {}

std::uint32_t Graph::Find(std::uint64_t address) const {
  const std::size_t mask = index_.size() - 1;
  for (std::size_t at = HashOf(address) >> 20U & mask;; at = (at + 1) & mask) {
    const std::uint32_t node = index_[at];
    if (node == kUnreached || nodes_[node].address == address) return node;
  }
}

void Graph::GrowIndex() {
  index_.assign(std::max<std::size_t>(index_.size() * 2, 1 << 16), kUnreached);
  const std::size_t mask = index_.size() - 1;
  for (std::uint32_t node = 1; node < nodes_.size(); ++node) {
    std::size_t at = HashOf(nodes_[node].address) >> 20U & mask;
    while (index_[at] != kUnreached) at = (at + 1) & mask;
    index_[at] = node;
  }
}

std::uint32_t Graph::AddNode(const Node& node) {
  if (nodes_.size() >= limits_.nodes) {
    not_all_ = "there are more than " + std::to_string(limits_.nodes) + " objects";
    return kUnreached;
  }
  nodes_.push_back(node);
  const auto number = static_cast<std::uint32_t>(nodes_.size() - 1);
  if (nodes_.size() * 2 > index_.size()) {
    GrowIndex();
    return number;
  }
  const std::size_t mask = index_.size() - 1;
  std::size_t at = HashOf(node.address) >> 20U & mask;
  while (index_[at] != kUnreached) at = (at + 1) & mask;
  index_[at] = number;
  return number;
}

std::uint32_t Graph::ObjectAt(std::uint64_t address) {
  if (address % 8 != 0 || address == 0) return kUnreached;
  if (const std::uint32_t known = Find(address); known != kUnreached)
    return nodes_[known].kind == NodeKind::kObject ? known : kUnreached;
  std::uint64_t count = 0;
  if (!memory_.TryWord(address, count)) return kUnreached;
  if (location_.version.minor >= kFirstWithImmortalObjects) count &= UINT32_MAX;
  if (count == 0) return kUnreached;
  const std::uint32_t type = types_.OfObject(address);
  if (type == TypeTable::kNone) return kUnreached;
  return AddNode({.address = address, .type = type});
}

// What a word of a structure is whose layout is not known: only an object without doubt. (A dict whose values
// are in no cycle is in no list either; the values of `threading.local` are in such a one.)
std::uint32_t Graph::ObjectInState(std::uint64_t address) {
  const std::uint32_t known = Find(address);
  if (known != kUnreached && nodes_[known].is_tracked) return known;
  const std::uint32_t type = types_.OfObject(address);
  if (type == TypeTable::kNone || types_[type].shape != Shape::kDict) return kUnreached;
  return ObjectAt(address);
}

bool Graph::PassedLimits() {
  if (edges_.size() >= limits_.edges) {
    not_all_ = "there are more than " + std::to_string(limits_.edges) + " references";
  } else if (deadline_.passed()) {
    not_all_ = "it took longer than " + std::to_string(limits_.milliseconds / 1000) + " s";
  } else {
    return false;
  }
  return true;
}

Result<void> Graph::Collect() {
  nodes_.push_back({.kind = NodeKind::kRoot});
  GrowIndex();
  ASSIGN_OR_RETURN(interpreters_, cpython::ReadStates(*raw_, location_));
  RETURN_IF_ERROR(AddTracked());
  for (const InterpreterState& interpreter : interpreters_) {
    AddModules(interpreter);
    AddThreads(interpreter);
    const std::uint32_t state =
        AddNode({.address = interpreter.address.address, .kind = NodeKind::kInterpreter});
    if (state != kUnreached) roots_.push_back(state);
  }
  FollowAll();
  parents_.assign(nodes_.size(), kUnreached);
  parents_[kRootNode] = kRootNode;
  Spread(roots_);
  AddHeldFromC();
  AddGarbage();
  return {};
}

Result<void> Graph::AddTracked() {
  if (location_.offsets.free_threaded) {
    return Error{Code::kFailed, "cannot list the objects: a free-threaded build keeps no lists of them",
                 "`probing memory --leaks` asks the interpreter itself, which needs a probe in it"};
  }
  if (location_.version.minor < kFirstSupported || location_.version.minor > kLastSupported) {
    return Error{Code::kFailed, "cannot read the heap of Python " + location_.version.ToText(),
                 "--heap is for Python 3.7 to 3.13; `probing memory --leaks` asks the interpreter itself"};
  }
  // 3.7 and 3.8 have one set of lists for all interpreters.
  const bool is_shared = location_.version.minor <= kLastWithOneCollector;
  for (const InterpreterState& interpreter : interpreters_) {
    const cpython::TrackedObjects tracked = cpython::FindTracked(
        *raw_, location_, interpreter, limits_.milliseconds / 2, [](RemoteAddress) { return true; });
    if (tracked.objects.empty() && !tracked.not_all.empty()) {
      return Error{Code::kFailed, "cannot list the objects: " + tracked.not_all, "try again"};
    }
    if (!tracked.not_all.empty()) not_all_ = tracked.not_all;
    for (const RemoteAddress object : tracked.objects) {
      const std::uint32_t type = types_.OfObject(object.address);
      if (type == TypeTable::kNone) {
        ++unread_;
      } else if (AddNode({.address = object.address, .type = type, .is_tracked = true}) == kUnreached) {
        break;
      }
    }
    if (is_shared) break;
  }
  const auto end = static_cast<std::uint32_t>(nodes_.size());
  for (std::uint32_t node = 1; node < end; ++node) {
    const Shape shape = types_[nodes_[node].type].shape;
    if (shape == Shape::kModule) {
      // Its variables are those of the module, whoever refers to them: functions do.
      std::uint64_t dict = 0;
      if (memory_.TryWord(nodes_[node].address + layout_.value, dict)) module_of_dict_.emplace(dict, node);
    } else if (shape == Shape::kClass) {
      std::uint64_t flags = 0;
      (void)memory_.TryWord(nodes_[node].address + layout_.type_flags, flags);
      if ((flags & 1U << 9U) == 0) roots_.push_back(node);
    }
  }
  return {};
}

void Graph::AddModules(const InterpreterState& interpreter) {
  const auto modules =
      memory_.ReadValue((interpreter.address + location_.offsets.interpreter.modules).As<RemoteAddress>());
  if (!modules.ok()) return;
  const auto items = cpython::ReadDict(memory_, layout_, *modules, kMaxModules);
  if (!items.ok()) return;
  for (const auto& [name, module] : items->items) {
    const std::uint32_t node = ObjectAt(module.address);
    if (node != kUnreached) roots_.push_back(node);
  }
}

void Graph::AddThreads(const InterpreterState& interpreter) {
  const cpython::FrameChainReader chains(*raw_, location_.offsets);
  for (const cpython::ThreadState& state : interpreter.threads) {
    const std::uint32_t thread = AddNode({.address = state.address.address, .kind = NodeKind::kThread});
    if (thread == kUnreached) return;
    roots_.push_back(thread);
    const auto places = chains.Walk(state.address, kMaxDepth, {});
    if (!places.ok()) {
      ++unread_;
      continue;
    }
    for (const RemoteAddress frame : places->frames) frames_of_thread_[thread].push_back(frame.address);
    if (location_.version.minor < kFirstWithFramesThatAreNoObjects) continue;
    for (const RemoteAddress frame : places->frames) {
      if (Find(frame.address) == kUnreached) AddNode({.address = frame.address, .kind = NodeKind::kFrame});
    }
  }
}

void Graph::ReadContents(std::uint32_t number) {
  contents_.Clear();
  const Node node = nodes_[number];
  switch (node.kind) {
    case NodeKind::kObject:
      references_.ReadObject(node.address, types_[node.type], contents_);
      nodes_[number].own_bytes = contents_.own_bytes;
      if (contents_.is_whole) return;
      ++unread_;
      if (first_unread_.empty()) first_unread_ = types_[node.type].name;
      return;
    case NodeKind::kThread:
      references_.ReadWords(node.address, node.address + kThreadStateBytes, contents_);
      for (const std::uint64_t frame : frames_of_thread_[number])
        contents_.references.push_back({frame, 0, Way::kFrame});
      return;
    case NodeKind::kFrame:
      references_.ReadFrame(node.address, contents_, false);
      return;
    case NodeKind::kInterpreter: {
      // sys.modules and, close behind it, the dicts of sys and builtins. The rest of the state has lists of
      // freed objects, whose places others may have taken.
      const std::uint64_t modules = node.address + location_.offsets.interpreter.modules;
      references_.ReadWords(modules, modules + kInterpreterStateBytes, contents_);
      return;
    }
    default:
      return;
  }
}

// Reads the contents of all nodes, also of those that come in meanwhile.
void Graph::FollowAll() {
  edges_.EndNode();  // the root's are elsewhere
  bool is_full = false;
  for (std::uint32_t number = 1; number < nodes_.size(); ++number) {
    if (number % kCheckTimeEvery == 0) is_full = is_full || PassedLimits();
    if (is_full) {
      edges_.EndNode();
      continue;
    }
    ReadContents(number);
    if (contents_.references.size() > kCheckTimeEvery) is_full = is_full || PassedLimits();
    const bool is_state =
        nodes_[number].kind == NodeKind::kThread || nodes_[number].kind == NodeKind::kInterpreter;
    const bool is_module =
        nodes_[number].kind == NodeKind::kObject && types_[nodes_[number].type].shape == Shape::kModule;
    std::size_t storage = 0;
    for (const Reference& reference : contents_.references) {
      std::uint32_t target = kUnreached;
      if (reference.way == Way::kStorage || reference.way == Way::kGradient) {
        const cpython::TensorStorage& found = contents_.storages[storage++];
        target = Find(reference.target);
        if (target == kUnreached) {
          const bool is_real = found.device != "meta";
          target = AddNode({.address = reference.target,
                            .own_bytes = is_real ? found.size_bytes : 0,
                            .kind = NodeKind::kStorage});
          if (target != kUnreached) devices_.emplace(target, found.device);
        }
      } else if (reference.way == Way::kFrame) {
        target = Find(reference.target);
      } else if (is_state && reference.way == Way::kField) {
        target = ObjectInState(reference.target);
      } else {
        target = ObjectAt(reference.target);
        if (target != kUnreached && !is_module && !module_of_dict_.empty()) {
          if (const auto module = module_of_dict_.find(reference.target); module != module_of_dict_.end())
            target = module->second;
        }
      }
      if (target != kUnreached && target != number) edges_.Add(target);
    }
    edges_.EndNode();
  }
}

// Everything that can be reached from these, which are children of the root or of a group.
void Graph::Spread(std::vector<std::uint32_t> from) {
  std::vector<std::uint32_t> queue;
  for (const std::uint32_t node : from) {
    if (parents_[node] != kUnreached) continue;
    parents_[node] = kRootNode;
    queue.push_back(node);
  }
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const std::uint32_t target : Targets(queue[i])) {
      if (parents_[target] != kUnreached) continue;
      parents_[target] = queue[i];
      queue.push_back(target);
    }
  }
}

void Graph::AddToGroup(NodeKind kind, std::uint32_t node) {
  const auto [known, is_new] = group_numbers_.try_emplace({kind, nodes_[node].type}, 0);
  if (is_new) {
    known->second = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({.type = nodes_[node].type, .kind = kind});
    groups_.emplace_back();
    parents_.push_back(kRootNode);
    roots_.push_back(known->second);
  }
  groups_[known->second - first_group_].push_back(node);
  Spread({node});
  parents_[node] = known->second;
}

// What is not reached, but has more references than were found.
void Graph::AddHeldFromC() {
  first_group_ = static_cast<std::uint32_t>(nodes_.size());
  std::vector<std::uint32_t> found(nodes_.size());
  for (std::uint32_t node = 1; node < first_group_; ++node) {
    for (const std::uint32_t target : edges_.Of(node)) ++found[target];
  }
  for (std::uint32_t node = 1; node < first_group_; ++node) {
    if (parents_[node] != kUnreached) continue;
    std::uint64_t count = 0;
    (void)memory_.TryWord(nodes_[node].address, count);
    if (location_.version.minor >= kFirstWithImmortalObjects) count &= UINT32_MAX;
    if (count > found[node] || found[node] == 0) AddToGroup(NodeKind::kHeldFromC, node);
  }
}

// The rest refers only to itself. The one that a depth-first search leaves last leads to all that belongs to
// it.
void Graph::AddGarbage() {
  std::vector<std::uint32_t> finished;
  std::vector<std::pair<std::uint32_t, std::size_t>> stack;
  std::vector<bool> seen(first_group_);
  // An object and its `__dict__` lead to each other: the object says more.
  std::vector<std::uint32_t> starts;
  for (const bool is_dict : {false, true}) {
    for (std::uint32_t node = 1; node < first_group_; ++node) {
      if (parents_[node] == kUnreached && (types_[nodes_[node].type].shape == Shape::kDict) == is_dict)
        starts.push_back(node);
    }
  }
  for (const std::uint32_t start : starts) {
    if (seen[start]) continue;
    seen[start] = true;
    stack.emplace_back(start, 0);
    while (!stack.empty()) {
      const std::uint32_t node = stack.back().first;
      const auto targets = edges_.Of(node);
      if (stack.back().second == targets.size()) {
        finished.push_back(node);
        stack.pop_back();
        continue;
      }
      const std::uint32_t target = targets[stack.back().second++];
      if (parents_[target] != kUnreached || seen[target]) continue;
      seen[target] = true;
      stack.emplace_back(target, 0);
    }
  }
  for (auto node = finished.rbegin(); node != finished.rend(); ++node) {
    if (parents_[*node] == kUnreached) AddToGroup(NodeKind::kGarbageCycle, *node);
  }
}

std::optional<Reference> Graph::FindReference(std::uint32_t from, std::uint32_t to) {
  if (from == kRootNode || from >= first_group_) return std::nullopt;
  const std::size_t unread = unread_;
  ReadContents(from);
  unread_ = unread;  // it was counted already
  std::optional<Reference> best;
  for (const Reference& reference : contents_.references) {
    const auto module = module_of_dict_.find(reference.target);
    const bool leads_there =
        reference.target == nodes_[to].address || (module != module_of_dict_.end() && module->second == to);
    if (!leads_there) continue;
    if (!best || best->way == Way::kKey || best->way == Way::kField) best = reference;
  }
  return best;
}

}  // namespace probing::heap
