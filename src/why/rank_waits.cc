// A rank that waits in a collective: for the ranks of its process group that are in none, or in another one.
#include <algorithm>
#include <set>

#include "process/status.h"
#include "why/investigation.h"

namespace probing::why {
namespace {

constexpr std::size_t kFramesOfCollective = 8;
constexpr std::size_t kFramesWithModel = 24;  // below a backward pass: the loop of a trainer
constexpr std::size_t kMaxGroups = 4096;
constexpr std::size_t kMaxRanks = 65536;

struct Collective {
  std::string name;                             // "all_reduce", "backward"; "" if it is in none
  std::optional<std::set<std::int64_t>> ranks;  // of its group; nothing when that is not known: all

  bool operator==(const Collective&) const = default;
  std::string Text() const {
    std::string text = "collective " + name;
    if (!ranks) return text;
    std::string list;
    for (const std::int64_t rank : *ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
    constexpr std::size_t kMaxListed = 16;
    return ranks->size() > kMaxListed ? text + " of " + std::to_string(ranks->size()) + " ranks"
                                      : text + " of ranks " + list;
  }
};

// What a rank waits in, if that may be a collective.
std::string NameOf(const std::vector<cpython::Frame>& frames) {
  std::string name;
  for (std::size_t i = 0; i < std::min(frames.size(), kFramesOfCollective); ++i) {
    const cpython::Frame& frame = frames[i];
    const std::string_view function = PlainName(frame.function);
    if (function == "_engine_run_backward" || frame.file.ends_with("torch/autograd/graph.py"))
      return "backward";
    if (function == "wait_tensor") return "wait_tensor";
    if (frame.file.find("torch/distributed/") == std::string::npos) {
      if (!name.empty() || !IsLibraryFile(frame.file)) break;
      continue;
    }
    // The outermost of torch's own: "barrier" of barrier → all_reduce → wrapper.
    if (frame.file.find("/elastic/") != std::string::npos) return "";
    if (function != "wrapper") name = function;
  }
  return name;
}

using Groups = std::vector<std::pair<RemoteAddress, RemoteAddress>>;  // process group, its dict of ranks

// The group that a frame has as a variable, or that one of its objects has as an attribute. Null when there
// is none, or when there are several: a mesh.
RemoteAddress GroupIn(PythonProcess& process, const cpython::RawFrame& frame, const Groups& groups) {
  std::set<std::uint64_t> held;
  const auto note = [&](RemoteAddress object) {
    if (std::ranges::find(groups, object, &Groups::value_type::first) != groups.end())
      held.insert(object.address);
  };
  const std::vector<RemoteAddress> objects = process.ObjectsOf(frame);
  for (const RemoteAddress object : objects) note(object);
  for (const RemoteAddress object : held.empty() ? objects : std::vector<RemoteAddress>{}) {
    for (const RemoteAddress value : process.AttributesOf(object)) note(value);
  }
  return held.size() == 1 ? RemoteAddress{*held.begin()} : RemoteAddress{};
}

// The ranks of the group of a collective, as torch.distributed keeps them.
std::optional<std::set<std::int64_t>> RanksOf(PythonProcess& process, const PythonThread& thread,
                                              const std::string& name) {
  const Groups groups = process.DictItems(
      process.ModuleVariable("torch.distributed.distributed_c10d", "_pg_group_ranks"), kMaxGroups);
  if (groups.size() < 2) return std::nullopt;  // there are no others than the default group
  // DistributedDataParallel is not among the frames of a backward pass, but where the loop is.
  const std::size_t depth = name == "backward" ? kFramesWithModel : kFramesOfCollective;
  for (std::size_t i = 0; i < std::min(thread.raw.size(), depth); ++i) {
    const RemoteAddress group = GroupIn(process, thread.raw[i], groups);
    if (!group) continue;
    const auto found = std::ranges::find(groups, group, &Groups::value_type::first);
    std::set<std::int64_t> ranks;
    for (const auto& [rank, place] : process.DictItems(found->second, kMaxRanks)) {
      const auto number = process.NumberOf(rank);
      if (!number) return std::nullopt;
      ranks.insert(static_cast<std::int64_t>(*number));
    }
    if (!ranks.empty()) return ranks;
  }
  return std::nullopt;
}

Collective CollectiveOf(PythonProcess& process, const PythonThread& thread) {
  Collective collective{.name = NameOf(thread.frames), .ranks = {}};
  if (!collective.name.empty()) collective.ranks = RanksOf(process, thread, collective.name);
  return collective;
}

// Receiving from one rank is no matter of the others.
std::string OnlyRank(PythonProcess& process, const PythonThread& thread, const std::string& name) {
  if (name != "recv" && name != "send") return "";
  std::string only;
  for (std::size_t i = 0; i < std::min(thread.raw.size(), kFramesOfCollective); ++i) {
    if (PlainName(thread.frames[i].function) == name)
      only = process.Variable(thread.raw[i], name == "recv" ? "src" : "dst");
  }
  return only == "None" ? "" : only;
}

}  // namespace

bool Investigation::WaitForRanks(Look& look) {
  if (look.python == nullptr) return false;
  const process::RankProcess* own = nullptr;
  for (const process::RankProcess& rank : Ranks()) {
    if (rank.pid == look.pid) own = &rank;
  }
  if (own == nullptr) return false;
  const Collective collective = CollectiveOf(*look.process, *look.python);
  if (collective.name.empty()) return false;
  const std::string text = collective.Text();
  const std::string only = OnlyRank(*look.process, *look.python, collective.name);
  struct Arrived {
    pid_t pid;
    Collective collective;
  };
  std::vector<Arrived> arrived;
  std::size_t seen = 1;
  for (const process::RankProcess& rank : Ranks()) {
    if (rank.pid == look.pid || rank.identity.job != own->identity.job) continue;
    if (collective.ranks && !collective.ranks->contains(rank.identity.rank.value_or(-1))) continue;
    ++seen;
    if (!only.empty() && only != std::to_string(rank.identity.rank.value_or(-1))) continue;
    PythonProcess* python = Python(rank.pid);
    const PythonThread* main = python != nullptr ? python->FindThread(rank.pid) : nullptr;
    const auto status = process::ReadStatus(rank.pid);
    const bool waits = status.ok() && status->state == 'S';
    Collective other = main != nullptr && waits ? CollectiveOf(*python, *main) : Collective{};
    if (!other.name.empty()) {
      arrived.push_back({rank.pid, std::move(other)});
      continue;
    }
    AddWait(look, AddProcess(rank.pid), text + ", to which it has not come");
  }
  graph_.nodes[look.node].needs_all = true;
  // Held up in another group of theirs: what that one waits for explains it.
  for (const auto& [pid, other] : arrived) {
    if (collective.ranks && other.ranks && *other.ranks != *collective.ranks)
      AddWait(look, AddProcess(pid), text + ", while it is in " + other.Text());
  }
  if (!graph_.nodes[look.node].waits.empty()) return true;
  const std::size_t wanted =
      collective.ranks
          ? collective.ranks->size()
          : static_cast<std::size_t>(std::max<std::int64_t>(own->identity.world_size.value_or(0), 0));
  if (seen < wanted) {
    AddWait(look,
            AddEnd(End::kOutside, 0,
                   std::to_string(wanted - seen) + " of " + std::to_string(wanted) +
                       " ranks are not on this host, or have ended"),
            text);
    return true;
  }
  // All are in one: in different ones, they wait for each other.
  for (const auto& [pid, other] : arrived) {
    if (other.name != collective.name)
      AddWait(look, AddProcess(pid), text + ", while it is in " + other.name);
  }
  if (!graph_.nodes[look.node].waits.empty()) return true;
  graph_.nodes[look.node].needs_all = false;
  graph_.nodes[look.node].note = text + ": all ranks of this host are in one";
  return !arrived.empty();
}

}  // namespace probing::why
