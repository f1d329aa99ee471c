// The JSON of NCCL 2.28 and later.
#include <algorithm>
#include <array>

#include "base/data_tree.h"
#include "observe/nccl/ras_status.h"

namespace probing::observe {
namespace {

using Value = DataTree::Value;
using Kind = DataTree::Kind;

constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::size_t kMaxKinds = 64;  // of operations; NCCL has about ten
constexpr std::int64_t kInProgress = 7;

// By the number that NCCL gives them (ncclResult_t).
constexpr std::array<std::string_view, 8> kResults{
    "",
    "Unhandled CUDA error",
    "System error",
    "Internal error",
    "Invalid argument",
    "Invalid usage",
    "Remote process error",
    "NCCL operation in progress",
};

// Takes values of the right kind; the first that is not makes everything void and is named.
class Reader {
 public:
  std::int64_t Number(Value dict, const char* key, std::int64_t least, std::int64_t most) {
    const Value value = dict.Get(key);
    const std::optional<std::int64_t> number = value.kind() == Kind::kInt ? value.Int() : std::nullopt;
    if (!number || *number < least || *number > most) Fail(key, "is no number that can be");
    return number.value_or(0);
  }
  std::string Text(Value dict, const char* key) {
    const Value value = dict.Get(key);
    if (value.kind() != Kind::kText || value.Text().size() > kMaxTextBytes) Fail(key, "is no short text");
    return std::string(value.Text().substr(0, kMaxTextBytes));
  }
  bool Bool(Value dict, const char* key) {
    const Value value = dict.Get(key);
    if (value.kind() != Kind::kBool) Fail(key, "is neither true nor false");
    return value.True();
  }
  Value Container(Value dict, const char* key, Kind kind) {
    const Value value = dict.Get(key);
    if (value.kind() != kind) Fail(key, kind == Kind::kList ? "is no list" : "is no object");
    return value;
  }
  void Fail(std::string_view key, std::string_view why) {
    if (problem_.empty()) problem_ = std::string(key) + " " + std::string(why);
  }
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

void ReadPlace(Reader& reader, Value each, std::int64_t size, RasRank& rank) {
  rank.comm_rank = reader.Number(each, "rank", 0, size - 1);
  rank.node = reader.Text(each, "host");
  if (const std::int64_t pid = reader.Number(each, "pid", -1, INT32_MAX); pid > 0) rank.process = pid;
  if (const std::int64_t gpu = reader.Number(each, "cuda_dev", -1, INT32_MAX); gpu >= 0) rank.gpu = gpu;
}

std::string ResultText(std::int64_t result) {
  if (result == 0 || result == kInProgress) return "";
  const auto index = static_cast<std::size_t>(result);
  return index < kResults.size() ? std::string(kResults[index]) : "Unexpected error";
}

RasRank ReadRank(Reader& reader, Value each, std::int64_t size) {
  RasRank rank;
  ReadPlace(reader, each, size, rank);
  const Value status = reader.Container(each, "status", Kind::kDict);
  const std::int64_t init = reader.Number(status, "init_state", 0, 1000);
  const std::int64_t async = reader.Number(status, "async_error", 0, 1000);
  const bool finalized = reader.Bool(status, "finalize_called");
  const bool destroyed = reader.Bool(status, "destroy_flag");
  const bool aborted = reader.Bool(status, "abort_flag");
  rank.status = aborted ? "ABORT" : finalized || destroyed ? "FINALIZE" : init == 0 ? "RUNNING" : "INIT";
  if (const std::string text = ResultText(init); !text.empty()) rank.error = "initialization: " + text;
  if (const std::string text = ResultText(async); !text.empty())
    rank.error += (rank.error.empty() ? "" : "; ") + text;
  const Value counts = reader.Container(each, "collective_counts", Kind::kDict);
  if (counts.size() > 2 * kMaxKinds) reader.Fail("collective_counts", "has too many kinds");
  for (std::size_t i = 0; i + 1 < counts.size() && i < 2 * kMaxKinds; i += 2) {
    const Value name = counts.at(i), count = counts.at(i + 1);
    if (name.kind() != Kind::kText || name.Text().size() > kMaxTextBytes || count.kind() != Kind::kInt ||
        *count.Int() < 0) {
      reader.Fail("collective_counts", "has something else than numbers");
      break;
    }
    rank.counts[std::string(name.Text())] = *count.Int();
  }
  return rank;
}

RasRank ReadMissing(Reader& reader, Value each, std::int64_t size) {
  RasRank rank;
  ReadPlace(reader, each, size, rank);
  const Value status = reader.Container(each, "status", Kind::kDict);
  const bool silent = reader.Bool(status, "unresponsive");
  rank.status = reader.Bool(status, "considered_dead") ? "DEAD" : silent ? "UNRESPONSIVE" : "NOCOMM";
  return rank;
}

// How far each rank is behind the furthest, in the operation where that is most.
void Compare(RasCommunicator& comm) {
  std::map<std::string, std::int64_t> furthest;
  for (const RasRank& rank : comm.ranks) {
    for (const auto& [op, count] : rank.counts) {
      const auto [at, is_new] = furthest.emplace(op, count);
      if (!is_new) at->second = std::max(at->second, count);
    }
  }
  for (RasRank& rank : comm.ranks) {
    if (rank.counts.empty()) continue;
    std::int64_t all = 0;
    rank.behind = 0;
    for (const auto& [op, count] : rank.counts) {
      if (__builtin_add_overflow(all, count, &all)) all = INT64_MAX;
      if (furthest[op] - count <= *rank.behind) continue;
      rank.behind = furthest[op] - count;
      rank.op = op;
      rank.launched = count;
    }
    if (!rank.launched) rank.launched = all;
  }
}

// As NCCL's own text has them.
void Summarize(RasCommunicator& comm) {
  constexpr std::array<std::string_view, 5> kOrder{"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};
  bool incomplete = false, error = false, mismatch = false;
  std::array<bool, kOrder.size()> seen{};
  for (const RasRank& rank : comm.ranks) {
    incomplete = incomplete || rank.status == "UNRESPONSIVE" || rank.status == "DEAD";
    error = error || !rank.error.empty();
    mismatch = mismatch || rank.behind.value_or(0) > 0;
    for (std::size_t i = 0; i < kOrder.size(); ++i) seen[i] = seen[i] || rank.status == kOrder[i];
  }
  for (std::size_t i = 0; i < kOrder.size(); ++i) {
    if (seen[i]) comm.status = kOrder[i];
  }
  mismatch = mismatch || std::ranges::count(seen, true) > 1;
  const auto add = [&](bool has, const char* name) {
    if (has) comm.errors += (comm.errors.empty() ? "" : ",") + std::string(name);
  };
  add(incomplete, "INCOMPLETE");
  add(error, "ERROR");
  add(mismatch, "MISMATCH");
  if (comm.errors.empty()) comm.errors = "OK";
}

RasCommunicator ReadCommunicator(Reader& reader, Value each) {
  RasCommunicator comm;
  comm.hash = reader.Text(each, "hash");
  comm.size = reader.Number(each, "size", 1, kMaxRanks);
  const Value ranks = reader.Container(each, "ranks", Kind::kList);
  const Value missing = reader.Container(each, "missing_ranks", Kind::kList);
  comm.answered = reader.Number(each, "ranks_count", 0, comm.size);
  comm.missing = reader.Number(each, "missing_ranks_count", 0, comm.size);
  if (*comm.answered != static_cast<std::int64_t>(ranks.size()) ||
      *comm.missing != static_cast<std::int64_t>(missing.size()))
    reader.Fail("ranks_count", "is not the number of ranks");
  for (std::size_t i = 0; i < ranks.size() && reader.problem().empty(); ++i)
    comm.ranks.push_back(ReadRank(reader, ranks.at(i), comm.size));
  for (std::size_t i = 0; i < missing.size() && reader.problem().empty(); ++i)
    comm.ranks.push_back(ReadMissing(reader, missing.at(i), comm.size));
  std::vector<std::int64_t> numbers;
  for (const RasRank& rank : comm.ranks) numbers.push_back(rank.comm_rank);
  std::ranges::sort(numbers);
  if (std::ranges::adjacent_find(numbers) != numbers.end()) reader.Fail("rank", "is there twice");
  Compare(comm);
  Summarize(comm);
  return comm;
}

}  // namespace

Result<RasStatus> ParseRasJson(std::string_view answer) {
  const Result<DataTree> tree = ReadJson(answer, kMaxValues);
  if (!tree.ok()) return Error{Code::kFailed, "its answer is no JSON, or too large", ""};
  const Value root = tree->root();
  Reader reader;
  RasStatus status;
  status.nccl_version = reader.Text(root, "nccl_version");
  const Value list = reader.Container(root, "communicators", Kind::kList);
  const Value own = reader.Container(root, "ras", Kind::kDict);
  status.timeouts = reader.Number(own, "timeouts_count", 0, INT32_MAX);
  for (std::size_t i = 0; i < list.size() && reader.problem().empty(); ++i) {
    status.communicators.push_back(ReadCommunicator(reader, list.at(i)));
    status.communicators.back().label = "#" + std::to_string(i);
  }
  if (!reader.problem().empty()) {
    const std::size_t at = status.communicators.size();
    return Error{Code::kFailed,
                 "its answer makes no sense: " + reader.problem() +
                     (at > 0 ? " (communicator " + std::to_string(at - 1) + ")" : ""),
                 ""};
  }
  return status;
}

}  // namespace probing::observe
