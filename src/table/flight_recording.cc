#include "table/flight_recording.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace probing::table {
namespace {

using Value = DataTree::Value;

constexpr std::size_t kMaxDimensions = 16;
constexpr std::size_t kMaxTensors = 64;
constexpr std::size_t kMaxRanks = 1 << 20;
constexpr std::size_t kMaxFrames = 256;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

struct ElementType {
  std::string_view name;    // as c10 prints it
  std::string_view python;  // as torch.dtype is called
  std::int64_t bytes;
};
constexpr std::array kElementTypes{
    ElementType{"Float", "float32", 4},
    ElementType{"Double", "float64", 8},
    ElementType{"Half", "float16", 2},
    ElementType{"BFloat16", "bfloat16", 2},
    ElementType{"Long", "int64", 8},
    ElementType{"Int", "int32", 4},
    ElementType{"Short", "int16", 2},
    ElementType{"Char", "int8", 1},
    ElementType{"Byte", "uint8", 1},
    ElementType{"Bool", "bool", 1},
    ElementType{"ComplexFloat", "complex64", 8},
    ElementType{"ComplexDouble", "complex128", 16},
};

// What backends call operations, and what Python does: ranks are compared by it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOperations{{
    {"allreduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"_all_gather_base", "all_gather_into_tensor"},
    {"_allgather_base", "all_gather_into_tensor"},
    {"all_gather_single", "all_gather_into_tensor"},
    {"_reduce_scatter_base", "reduce_scatter_tensor"},
    {"reduce_scatter_single", "reduce_scatter_tensor"},
    {"alltoall", "all_to_all"},
    {"all_to_all_base", "all_to_all_single"},
    {"alltoall_base", "all_to_all_single"},
    {"allgather_into_tensor_coalesced", "all_gather_into_tensor_coalesced"},
    {"allreduce_coalesced", "all_reduce_coalesced"},
}};

std::string OperationName(std::string_view name) {
  const auto* const found = std::ranges::find(kOperations, name, [](const auto& each) { return each.first; });
  return std::string(found == kOperations.end() ? name : found->second);
}

// "nccl:all_reduce" and, of sends, "nccl:send 0->1".
void ReadOperation(std::string_view name, FlightEntry& entry) {
  if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
    entry.backend = std::string(name.substr(0, colon));
    name.remove_prefix(colon + 1);
  }
  entry.op = OperationName(name);
}

void ReadSizes(Value sizes, Value types, FlightEntry& entry) {
  std::int64_t total = 0;
  std::string text;
  for (std::size_t i = 0; i < std::min(sizes.size(), kMaxTensors); ++i) {
    const Value shape = sizes.at(i);
    const std::string_view name = types.at(i).Text();
    const auto* const type = std::ranges::find(kElementTypes, name, &ElementType::name);
    std::int64_t count = type == kElementTypes.end() ? 1 : type->bytes;
    text += i == 0 ? "[" : ", [";
    for (std::size_t k = 0; k < std::min(shape.size(), kMaxDimensions); ++k) {
      const std::int64_t size = shape.at(k).Int().value_or(0);
      text += (k == 0 ? "" : ", ") + std::to_string(size);
      count = size <= 0 ? 0 : (count > kMaxBytes / size ? kMaxBytes : count * size);
    }
    text += "]";
    total = std::min(total + count, kMaxBytes);
    if (i == 0) entry.dtype = type == kElementTypes.end() ? LowerCase(name) : std::string(type->python);
  }
  entry.bytes = total;
  if (!text.empty()) entry.sizes = "[" + text + "]";
}

bool IsTorchs(std::string_view file) {
  return file.find("/torch/") != std::string_view::npos || file.empty() || file.starts_with('<');
}

// The innermost frame that is the user's, or the innermost of all.
std::string PlaceOf(Value frames) {
  Value chosen = frames.at(0);
  for (std::size_t i = 0; i < std::min(frames.size(), kMaxFrames); ++i) {
    if (IsTorchs(frames.at(i).Get("filename").Text())) continue;
    chosen = frames.at(i);
    break;
  }
  const std::string_view file = chosen.Get("filename").Text();
  if (file.empty()) return "";
  return std::string(chosen.Get("name").Text()) + " (" + std::string(file.substr(file.rfind('/') + 1)) + ":" +
         std::to_string(chosen.Get("line").Int().value_or(0)) + ")";
}

std::optional<std::int64_t> TimeOf(Value value) {
  const std::optional<std::int64_t> time = value.Int();
  return time && *time > 0 ? time : std::nullopt;
}

// "[0, 1, 2]", or a list.
std::vector<std::int64_t> ReadRanks(Value value) {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < std::min(value.size(), kMaxRanks); ++i) {
    if (const auto rank = value.at(i).Int()) ranks.push_back(*rank);
  }
  std::string_view rest = Trim(value.Text(), "[] ");
  while (!rest.empty() && ranks.size() < kMaxRanks) {
    std::int64_t rank = 0;
    if (ParseNumber(Trim(TakePart(rest, ','), " "), rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::map<std::string, FlightGroup> ReadGroups(Value config) {
  std::map<std::string, FlightGroup> groups;
  for (std::size_t i = 0; i + 1 < config.size(); i += 2) {
    const Value group = config.at(i + 1);
    FlightGroup read{std::string(group.Get("desc").Text()), ReadRanks(group.Get("ranks")), {}, {}};
    if (read.ranks.empty()) continue;  // gloo has one such
    groups[std::string(config.at(i).Text())] = std::move(read);
  }
  return groups;
}

// pg_id → name of the group. Entries say both. Of groups without entries: both are counted up when a group is
// made, so where there are as many of one as of the other, they are in the same order.
std::map<std::int64_t, std::string> ReadNames(Value entries, Value config, Value statuses) {
  std::map<std::int64_t, std::string> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::optional<std::int64_t> id = entries.at(i).Get("pg_id").Int();
    if (id) names.try_emplace(*id, entries.at(i).Get("process_group").at(0).Text());
  }
  std::vector<std::int64_t> ids, numbers;
  for (std::size_t i = 0; i + 1 < statuses.size(); i += 2) {
    if (const auto id = statuses.at(i).Int()) ids.push_back(*id);
  }
  for (std::size_t i = 0; i + 1 < config.size(); i += 2) {
    if (const auto number = config.at(i).Int()) numbers.push_back(*number);
  }
  if (ids.size() != numbers.size() || 2 * numbers.size() != config.size()) return names;
  std::ranges::sort(ids);
  std::ranges::sort(numbers);
  std::map<std::int64_t, std::string> all;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    all[ids[i]] = std::to_string(numbers[i]);
    const auto known = names.find(ids[i]);
    if (known != names.end() && known->second != all[ids[i]]) return names;
  }
  return all;
}

void ReadStatuses(Value statuses, const std::map<std::int64_t, std::string>& names,
                  std::map<std::string, FlightGroup>& groups) {
  for (std::size_t i = 0; i + 1 < statuses.size(); i += 2) {
    const auto name = names.find(statuses.at(i).Int().value_or(-1));
    if (name == names.end()) continue;
    FlightGroup& group = groups[name->second];
    group.enqueued = statuses.at(i + 1).Get("last_enqueued_collective").Int();
    group.completed = statuses.at(i + 1).Get("last_completed_collective").Int();
  }
}

std::optional<FlightEntry> ReadEntry(Value value, Value statuses) {
  FlightEntry entry;
  const std::optional<std::int64_t> created = TimeOf(value.Get("time_created_ns"));
  const std::string_view name = value.Get("profiling_name").Text();
  if (!created || name.empty()) return std::nullopt;
  entry.created_ns = *created;
  entry.record_id = value.Get("record_id").Int().value_or(0);
  const Value group = value.Get("process_group");
  entry.group = std::string(group.at(0).Text());
  entry.description = std::string(group.at(1).Text());
  entry.is_p2p = value.Get("is_p2p").True();
  // Before torch 2.4 there was one number for both.
  std::optional<std::int64_t> seq = value.Get(entry.is_p2p ? "p2p_seq_id" : "collective_seq_id").Int();
  if (!seq) seq = value.Get("seq_id").Int();
  entry.seq = seq.value_or(0);
  ReadOperation(name, entry);
  ReadSizes(value.Get("input_sizes"), value.Get("input_dtypes"), entry);
  entry.started_ns = TimeOf(value.Get("time_discovered_started_ns"));
  entry.finished_ns = TimeOf(value.Get("time_discovered_completed_ns"));
  entry.duration_ms = value.Get("duration_ms").Double();
  entry.state = std::string(value.Get("state").Text());
  // Gloo leaves the state at "scheduled" but takes off its list what is over, and counts it.
  const std::string id = std::to_string(value.Get("pg_id").Int().value_or(-1));
  const auto completed = statuses.Get(id).Get("last_completed_collective").Int();
  entry.is_over = entry.state == "completed" || value.Get("retired").True() ||
                  (!entry.is_p2p && completed && *completed >= entry.seq);
  if (entry.is_over) entry.state = "completed";
  entry.place = PlaceOf(value.Get("frames"));
  return entry;
}

}  // namespace

std::optional<FlightRecording> ReadFlightRecording(const DataTree& tree) {
  const Value root = tree.root();
  FlightRecording recording;
  recording.version = std::string(root.Get("version").Text());
  if (root.kind() != DataTree::Kind::kDict || recording.version.empty()) return std::nullopt;
  recording.groups = ReadGroups(root.Get("pg_config"));
  const Value entries = root.Get("entries");
  const Value statuses = root.Get("pg_status");
  ReadStatuses(statuses, ReadNames(entries, root.Get("pg_config"), statuses), recording.groups);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::optional<FlightEntry> entry = ReadEntry(entries.at(i), statuses))
      recording.entries.push_back(std::move(*entry));
  }
  return recording;
}

std::string RanksText(const std::vector<std::int64_t>& ranks) {
  std::string text = "[";
  for (const std::int64_t rank : ranks) text += (text.size() == 1 ? "" : ", ") + std::to_string(rank);
  return text + "]";
}

}  // namespace probing::table
