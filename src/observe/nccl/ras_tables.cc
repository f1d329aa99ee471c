#include "observe/nccl/ras_tables.h"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/clock.h"
#include "observe/nccl/ras_client.h"
#include "observe/nccl/ras_status.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::observe {
namespace {

using table::Rows;
using table::Value;

constexpr std::int64_t kSharedNs = 500'000'000;  // a query that joins both tables asks once
constexpr std::size_t kMaxRemembered = 200'000;

struct Answer {
  RasStatus status;
  std::map<std::pair<std::string, std::int64_t>, double> still_s;  // by communicator and rank
};
using AnswerPtr = std::shared_ptr<const Answer>;  // shared by the scans of a query

std::string StateOf(const RasRank& rank) {
  std::string state = rank.status + "|" + rank.error + "|" + rank.op + "|";
  if (rank.launched) state += std::to_string(*rank.launched);
  for (const auto& [op, count] : rank.counts) state += "," + std::to_string(count);
  return state;
}

// The last answer of each port, and since when ranks have been as they are. For the life of a query worker,
// so times are a lower bound.
class Ports {
 public:
  // Nothing when nobody listens.
  Result<AnswerPtr> Ask(const RasAddress& address) {
    const std::lock_guard lock(mutex_);
    Port& port = ports_[address];
    if (port.answer != nullptr && MonotonicNs() - port.at_ns < kSharedNs) return port.answer;
    port.answer.reset();
    ASSIGN_OR_RETURN(const std::optional<std::string> text, AskRas(address));
    if (!text) {
      ports_.erase(address);
      return AnswerPtr();
    }
    Result<RasStatus> status = ParseRasStatus(*text);
    if (!status.ok()) {
      Error error = status.error();
      error.message = "NCCL's RAS port at " + address.ToText() + ": " + error.message;
      return error;
    }
    port.at_ns = MonotonicNs();
    port.answer = Remember(std::move(*status), port);
    return port.answer;
  }

 private:
  struct Seen {
    std::size_t state = 0;
    std::int64_t since_ns = 0;
  };
  using Seens = std::map<std::pair<std::string, std::int64_t>, Seen>;
  struct Port {
    AnswerPtr answer;
    std::int64_t at_ns = 0;
    Seens seen;
  };

  static AnswerPtr Remember(RasStatus status, Port& port) {
    auto answer = std::make_shared<Answer>();
    Seens now;
    for (const RasCommunicator& comm : status.communicators) {
      for (const RasRank& rank : comm.ranks) {
        if (now.size() >= kMaxRemembered) break;
        const std::pair key(comm.hash, rank.comm_rank);
        const std::size_t state = std::hash<std::string>()(StateOf(rank));
        const auto before = port.seen.find(key);
        const bool same = before != port.seen.end() && before->second.state == state;
        const Seen seen{state, same ? before->second.since_ns : port.at_ns};
        now.insert_or_assign(key, seen);
        answer->still_s[key] = static_cast<double>(port.at_ns - seen.since_ns) / 1e9;
      }
    }
    port.seen = std::move(now);
    answer->status = std::move(status);
    return answer;
  }

  std::mutex mutex_;
  std::map<RasAddress, Port> ports_;
};

Value Text(const std::string& text) { return text.empty() ? Value() : Value(table::ToUtf8(text)); }
Value Number(std::optional<std::int64_t> number) { return number ? Value(*number) : Value(); }

std::string CountsJson(const RasRank& rank) {
  std::string json;
  for (const auto& [op, count] : rank.counts) {
    json += json.empty() ? "{\"" : ", \"";
    for (const char c : op) {
      if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= ' ') json += c;
    }
    json += "\": " + std::to_string(count);
  }
  return json.empty() ? json : json + "}";
}

using AddRow = std::function<void(std::vector<Value>)>;

void AddCommunicators(const Answer& answer, const std::string& address, const AddRow& add) {
  for (const RasCommunicator& comm : answer.status.communicators) {
    add({Text(comm.hash), Text(comm.label), comm.size, Number(comm.answered), Number(comm.missing),
         Text(comm.status), Text(comm.errors), Text(answer.status.nccl_version), answer.status.timeouts,
         Text(address)});
  }
}

void AddRanks(const Answer& answer, const std::string& address, const AddRow& add) {
  std::map<std::string, bool> local;  // asked once for each address
  for (const RasCommunicator& comm : answer.status.communicators) {
    for (const RasRank& rank : comm.ranks) {
      auto is_local = local.find(rank.node);
      if (is_local == local.end()) is_local = local.emplace(rank.node, IsLocalAddress(rank.node)).first;
      const auto still = answer.still_s.find({comm.hash, rank.comm_rank});
      add({Text(comm.hash), comm.size, rank.comm_rank, Text(rank.node), is_local->second,
           Number(rank.process), Number(rank.gpu), Text(rank.status), Text(rank.error), Text(rank.op),
           Number(rank.launched), Number(rank.behind), Text(CountsJson(rank)),
           still == answer.still_s.end() ? Value() : Value(still->second), Text(address)});
    }
  }
}

// Parts are ports. Their rows are about the job, so the target is the first process that led there.
class RasSource : public table::Source {
 public:
  using Add = void (*)(const Answer&, const std::string& address, const AddRow&);
  RasSource(const table::Table* table, std::shared_ptr<Ports> ports, Add add)
      : table_(table), ports_(std::move(ports)), add_(add) {}

  const table::Table& table() const override { return *table_; }

  Result<std::vector<table::Part>> Parts(const table::ScanRequest& request) override {
    std::vector<table::Part> parts;
    std::set<RasAddress> known;
    for (const table::Target* target : request.targets) {
      if (target->pid <= 0) continue;
      Result<std::optional<RasAddress>> address = RasAddressOf(static_cast<pid_t>(target->pid));
      if (!address.ok()) {
        parts.push_back({target, [this, note = address.error().message, columns = request.columns] {
                           return Nothing(note, columns);
                         }});
      } else if (*address && known.insert(**address).second) {
        parts.push_back(
            {target, [this, at = **address, columns = request.columns] { return Open(at, columns); }});
      }
    }
    return parts;
  }

 private:
  Result<std::unique_ptr<table::Cursor>> Open(const RasAddress& address,
                                              const std::vector<std::size_t>& columns) const {
    const Result<AnswerPtr> asked = ports_->Ask(address);
    if (!asked.ok()) {
      // Somebody else's job may have the usual port: that says nothing about this one.
      if (asked.error().code == Code::kPermission) return Nothing(asked.error().message, columns);
      return asked.error();
    }
    if (*asked == nullptr)
      return Nothing("no NCCL listens at " + address.ToText() + "; 2.24 and later do, with RAS enabled",
                     columns);
    auto rows = std::make_shared<Rows>(table::TypesOf(*table_, columns));
    add_(**asked, address.ToText(), [&](std::vector<Value> row) {
      std::vector<Value> picked;
      for (const std::size_t column : columns) picked.push_back(std::move(row[column]));
      rows->Add(std::move(picked));
    });
    return table::MakeRowsCursor(std::move(rows));
  }

  Result<std::unique_ptr<table::Cursor>> Nothing(std::string note,
                                                 const std::vector<std::size_t>& columns) const {
    auto rows = std::make_shared<Rows>(table::TypesOf(*table_, columns));
    rows->set_note(std::move(note));
    return table::MakeRowsCursor(std::move(rows));
  }

  const table::Table* table_;
  std::shared_ptr<Ports> ports_;  // shared by both tables
  Add add_;
};

}  // namespace

std::vector<std::shared_ptr<table::Source>> RasSources() {
  const auto ports = std::make_shared<Ports>();
  return {std::make_shared<RasSource>(table::FindTable("nccl.ras_communicators"), ports, &AddCommunicators),
          std::make_shared<RasSource>(table::FindTable("nccl.ras_ranks"), ports, &AddRanks)};
}

}  // namespace probing::observe
