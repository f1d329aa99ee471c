// The text of NCCL 2.24 to 2.27, and of later ones that are asked for it. Lines that are not known are passed
// over: the text is for people and changes from version to version.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "observe/nccl/ras_status.h"

namespace probing::observe {
namespace {

constexpr std::string_view kVersion = "NCCL version ";
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::size_t kMaxNamedRanks = 200'000;

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return TakePart(text, ' ');
}

std::optional<std::int64_t> TakeNumber(std::string_view& text) {
  std::string_view rest = text;
  const std::string_view word = TakeWord(rest);
  std::int64_t number = 0;
  if (!IsNumber(word) || !ParseNumber(word, number)) return std::nullopt;
  text = rest;
  return number;
}

std::string Short(std::string_view text) { return std::string(text.substr(0, kMaxTextBytes)); }

using Process = std::pair<std::string, std::int64_t>;  // its host's address, its number

class TextReader {
 public:
  Result<RasStatus> Read(std::string_view text) {
    if (!TakePrefix(text, kVersion)) return Error{Code::kFailed, "its answer is no status of NCCL", ""};
    status_.nccl_version = Short(text.substr(0, text.find_first_of(" \n")));
    bool has_list = false;
    while (!text.empty() && problem_.empty()) {
      std::string_view line = TakePart(text, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("Group ") && !has_list) in_table_ = has_list = true;
      if (line.starts_with("No communicator data collected")) has_list = true;
      Line(line);
    }
    if (problem_.empty() && !has_list) problem_ = "it has no list of communicators";
    if (!problem_.empty()) return Error{Code::kFailed, "its answer makes no sense: " + problem_, ""};
    CloseCounts();
    MarkDead();
    return std::move(status_);
  }

 private:
  void Line(std::string_view line) {
    if (in_table_) {
      if (line.empty()) in_table_ = false;
      if (std::string_view rest = line; in_table_ && TakeNumber(rest)) return Group(line);
      return;
    }
    if (line.starts_with('#')) return Section(line);
    if (line == "DEAD") {
      Leave();
      in_dead_ = true;
    } else if (line == "INCOMPLETE" || line == "TIMEOUT" || (!line.empty() && line.front() != ' ')) {
      Leave();
    } else if (TakePrefix(line, "  Encountered ")) {
      status_.timeouts = TakeNumber(line).value_or(0);
    } else if (in_dead_ && TakePrefix(line, "  Process ")) {
      DeadProcess(line);
    } else if (comm_ != nullptr && TakePrefix(line, "  ")) {
      Detail(line);
    }
  }

  // "    0         1         1         4         4         4   RUNNING  MISMATCH": as many communicators
  void Group(std::string_view line) {
    const auto number = TakeNumber(line), count = TakeNumber(line), nodes = TakeNumber(line);
    TakeWord(line);  // ranks per node: one number, or from-to
    const auto size = TakeNumber(line), ranks = TakeNumber(line);
    const std::string status = Short(TakeWord(line)), errors = Short(TakeWord(line));
    if (!number || !count || !nodes || !size || !ranks || *size < 1 || *size > kMaxRanks || errors.empty()) {
      problem_ = "a row of its list of communicators is broken";
    } else if (static_cast<std::uint64_t>(*count) > kMaxRasCommunicators - status_.communicators.size()) {
      problem_ = "it has too many communicators";
    } else {
      for (std::int64_t i = 0; i < *count; ++i) {
        RasCommunicator comm;
        comm.label = "#" + std::to_string(*number) + "-" + std::to_string(i);
        comm.size = *size;
        comm.status = status;
        comm.errors = errors;
        by_label_.emplace(comm.label, status_.communicators.size());
        status_.communicators.push_back(std::move(comm));
      }
    }
  }

  // "#0-0 (2f4a…) MISMATCH"
  void Section(std::string_view line) {
    Leave();
    const auto found = by_label_.find(std::string(TakeWord(line)));
    const std::string_view hash = Trim(TakeWord(line), "()");
    if (found == by_label_.end()) {
      problem_ = "it speaks of a communicator that is not in its list";
      return;
    }
    comm_ = &status_.communicators[found->second];
    for (std::size_t i = 0; i < comm_->ranks.size(); ++i) by_rank_.emplace(comm_->ranks[i].comm_rank, i);
    // JSON writes the same number without leading zeros.
    if (!hash.empty())
      comm_->hash = "0x" + Short(hash.substr(std::min(hash.find_first_not_of('0'), hash.size())));
    is_incomplete_ = Trim(line, " ") == "INCOMPLETE";
  }

  void Detail(std::string_view line) {
    if (TakePrefix(line, "Communicator ranks have different ")) {
      CloseCounts();
      const std::size_t end = line.find(" operation counts");
      if (end != std::string_view::npos) op_ = Short(line.substr(0, end));
      return;
    }
    if (std::string_view rest = line; TakePrefix(rest, "Rank ")) return Rank(rest);
    const std::optional<std::int64_t> ranks = TakeNumber(line);
    if (!ranks || !TakePrefix(line, "ranks ")) return;
    said_ = Said(line);
  }

  struct What {
    std::string status, error;
    std::optional<std::int64_t> launched;
  };

  // What follows "3 ranks " or "Rank 2 ".
  What Said(std::string_view text) {
    What what;
    if (TakePrefix(text, "have ") || TakePrefix(text, "has ")) {
      if (TakePrefix(text, "status ")) what.status = Short(TakeWord(text));
      if (TakePrefix(text, "launched up to operation ")) what.launched = TakeNumber(text);
      if (TakePrefix(text, "not launched any operations")) what.launched = 0;
    } else if (TakePrefix(text, "reported ")) {
      what.error = Short(text.substr(0, text.find(" -- ")));
    }
    if (what.launched) furthest_ = std::max(furthest_.value_or(0), *what.launched);
    return what;
  }

  // "2 has launched up to operation 65 -- GPU 2 managed by process 4711 on node 10.0.0.1", or only
  // "2 -- GPU …" below a line that says it of several.
  void Rank(std::string_view line) {
    const std::optional<std::int64_t> number = TakeNumber(line);
    if (!number || *number >= comm_->size) {
      problem_ = "it names a rank that " + comm_->label + " does not have";
      return;
    }
    const What what = line.starts_with("-- ") ? said_ : Said(line);
    RasRank& rank = FindRank(*number);
    if (!problem_.empty()) return;
    if (is_incomplete_) rank.status = "UNRESPONSIVE";
    if (!what.status.empty()) rank.status = what.status;
    if (!what.error.empty()) rank.error = what.error;
    if (what.launched) counted_.emplace_back(*number, *what.launched);
    if (const std::size_t at = line.find("GPU "); at != std::string_view::npos) {
      std::string_view rest = line.substr(at + 4);
      if (!rank.gpu) rank.gpu = TakeNumber(rest);
    }
    if (const std::size_t at = line.find(" process "); at != std::string_view::npos) {
      std::string_view rest = line.substr(at + 9);
      if (!rank.process) rank.process = TakeNumber(rest);
      if (TakePrefix(rest, "on node ")) rank.node = Short(TakeWord(rest));
    }
  }

  RasRank& FindRank(std::int64_t number) {
    const auto [at, is_new] = by_rank_.emplace(number, comm_->ranks.size());
    if (is_new) {
      if (++named_ > kMaxNamedRanks) problem_ = "it has too many ranks";
      RasRank rank;
      rank.comm_rank = number;
      rank.status = comm_->status;
      comm_->ranks.push_back(std::move(rank));
    }
    return comm_->ranks[at->second];
  }

  // At the end of the counts of one operation it is known which is the furthest.
  void CloseCounts() {
    for (const auto& [number, launched] : counted_) {
      RasRank& rank = comm_->ranks[by_rank_[number]];
      const std::int64_t behind = *furthest_ - launched;
      if (rank.behind && *rank.behind >= behind) continue;
      rank.behind = behind;
      rank.launched = launched;
      rank.op = behind > 0 ? op_ : "";
    }
    counted_.clear();
    furthest_.reset();
    op_.clear();
    said_ = {};
  }

  void Leave() {
    CloseCounts();
    // A communicator has several sections: its ranks are found again by number.
    by_rank_.clear();
    comm_ = nullptr;
    in_dead_ = is_incomplete_ = false;
  }

  void DeadProcess(std::string_view line) {
    const std::optional<std::int64_t> pid = TakeNumber(line);
    if (pid && TakePrefix(line, "on node ")) dead_.emplace_back(Short(TakeWord(line)), *pid);
  }

  void MarkDead() {
    std::ranges::sort(dead_);
    for (RasCommunicator& comm : status_.communicators) {
      for (RasRank& rank : comm.ranks) {
        if (rank.process && std::ranges::binary_search(dead_, Process(rank.node, *rank.process)))
          rank.status = "DEAD";
      }
    }
  }

  RasStatus status_;
  std::string problem_;
  bool in_table_ = false, in_dead_ = false, is_incomplete_ = false;
  RasCommunicator* comm_ = nullptr;  // of this section; the list, which is read once, is over
  std::map<std::string, std::size_t> by_label_;
  std::map<std::int64_t, std::size_t> by_rank_;
  std::size_t named_ = 0;
  std::vector<Process> dead_;
  std::string op_;
  What said_;
  std::optional<std::int64_t> furthest_;
  std::vector<std::pair<std::int64_t, std::int64_t>> counted_;
};

}  // namespace

Result<RasStatus> ParseRasText(std::string_view answer) { return TextReader().Read(answer); }

Result<RasStatus> ParseRasStatus(std::string_view answer) {
  if (answer.size() > kMaxRasBytes) return Error{Code::kFailed, "its answer is too large", ""};
  return answer.starts_with('{') ? ParseRasJson(answer) : ParseRasText(answer);
}

}  // namespace probing::observe
