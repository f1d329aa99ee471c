#include "daemon/coverage.h"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/host_name.h"
#include "wire/diagnosis.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

constexpr const char* kSql = R"SQL(
SELECT t.host, t.pid, t.job, t.rank, t.state, t.world_size,
       (t.host, t.pid) IN (SELECT (host, pid) FROM global.python.process_groups
                           UNION SELECT (host, pid) FROM global.python.collective_starts) AS collectives
FROM global.probing.targets AS t WHERE t.job_role = 'rank' AND t.rank IS NOT NULL)SQL";

struct Job {
  std::int64_t world_size = 0;
  std::set<std::int64_t> probed, ended, not_probed, with_collectives;
};

Json Summary(const std::string& name, const Job& job) {
  Json probed = Json::array();
  Json not_probed = Json::array();
  Json unknown = Json::array();
  std::set<std::int64_t> known = job.probed;
  known.insert(job.not_probed.begin(), job.not_probed.end());
  known.insert(job.ended.begin(), job.ended.end());
  const std::int64_t ranks = std::max<std::int64_t>(job.world_size, static_cast<std::int64_t>(known.size()));
  for (const std::int64_t rank : job.probed) probed.push_back(rank);
  for (const std::int64_t rank : job.not_probed) not_probed.push_back(rank);
  constexpr std::int64_t kMostListed = 4096;
  for (std::int64_t rank = 0; rank < std::min(ranks, kMostListed); ++rank) {
    if (!known.contains(rank)) unknown.push_back(rank);
  }
  const std::string collectives = job.with_collectives.empty()                       ? "no"
                                  : job.with_collectives.size() >= job.probed.size() ? "yes"
                                                                                     : "partly";
  return {{"job", name},
          {"ranks", ranks},
          {"probed", std::move(probed)},
          {"not_probed", std::move(not_probed)},
          {"unknown", std::move(unknown)},
          {"collectives", collectives},
          {"next", job.not_probed.empty() ? "" : "probing -t job:" + name + " inject"}};
}

}  // namespace

bool Coverage::AllProbed() const {
  return std::ranges::all_of(jobs, [](const Json& job) { return job["not_probed"].empty(); });
}

std::string Coverage::JobOf(const std::string& host, const Json& pids) const {
  const std::string where = host.empty() ? HostName() : host;
  for (const Json& process : processes) {
    if (!pids.empty() && process["pid"] == pids[0] && process["host"] == where)
      return process["job"].get<std::string>();
  }
  return "";
}

asio::awaitable<Coverage> SeeCoverage(Daemon& daemon, const std::vector<process::RankProcess>& local,
                                      std::optional<pid_t> target) {
  Coverage coverage;
  std::map<std::string, Job> jobs;
  std::set<std::pair<std::string, std::int64_t>> known;
  std::string only;
  const auto note = [&](const std::string& host, std::int64_t pid, const std::string& job) {
    coverage.processes.push_back({{"host", host}, {"pid", pid}, {"job", job}});
    if (target && pid == *target && host == HostName()) only = job;
  };
  const Result<Json> rows = co_await QueryRows(daemon, kSql);
  for (const Json& row : rows.ok() ? (*rows)["rows"] : Json::array()) {
    const auto host = row[0].is_string() ? row[0].get<std::string>() : "";
    const auto pid = row[1].get<std::int64_t>();
    const auto name = row[2].is_string() ? row[2].get<std::string>() : "";
    const auto rank = row[3].get<std::int64_t>();
    note(host, pid, name);
    known.emplace(host, pid);
    Job& job = jobs[name];
    if (row[5].is_number_integer()) job.world_size = std::max(job.world_size, row[5].get<std::int64_t>());
    if (row[4] == "ended") {
      job.ended.insert(rank);
      continue;
    }
    job.probed.insert(rank);
    if (row[6] == true) job.with_collectives.insert(rank);
  }
  for (const process::RankProcess& process : local) {
    if (known.contains({HostName(), process.pid})) continue;
    note(HostName(), process.pid, process.identity.job);
    Job& job = jobs[process.identity.job];
    job.world_size = std::max(job.world_size, process.identity.world_size.value_or(0));
    job.not_probed.insert(*process.identity.rank);
  }
  for (const auto& [name, job] : jobs) {
    // A job that has ended is of no interest any more, but its processes are.
    if ((job.probed.empty() && job.not_probed.empty()) || (target && name != only)) continue;
    coverage.jobs.push_back(Summary(name, job));
  }
  co_return coverage;
}

}  // namespace probing::daemon
