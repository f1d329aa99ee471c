// SQL for whoever asks: gathers what a query may see and has a query worker answer it.
//
// The worker is a process of its own (query/client.h). What it cannot read itself, because it is
// in this process or behind the connection to a probe, it asks for through Provide(); what other hosts have,
// for `global`, is gathered from them (cluster/gathering.h). Their questions have workers of their own, so
// that two hosts which ask each other never wait for each other.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cluster/gathering.h"
#include "daemon/history.h"
#include "daemon/other_hosts.h"
#include "daemon/outlets.h"
#include "daemon/recorded_job.h"
#include "daemon/running_query.h"
#include "daemon/sampling.h"
#include "daemon/shared_answer.h"
#include "daemon/targets.h"
#include "daemon/unseen.h"
#include "server/router.h"
#include "wire/settings.h"

namespace probing::daemon {

class Queries {
 public:
  Queries(boost::asio::io_context& io, Targets& targets, const Sampling& sampling, const History& history,
          const Outlets& outlets, OtherHosts& hosts, const wire::Settings& settings);

  // POST /api/v1/query. Equal questions that come while a worker is busy with one of them are asked as one.
  boost::asio::awaitable<Result<server::Content>> Answer(const server::Request& request,
                                                         std::optional<pid_t> target);
  // The same for those who ask again and again.
  std::shared_ptr<SharedAnswer> Follow(const server::Request& request, std::optional<pid_t> target);

  // All rows of one table for a file: as Answer(), in the format `frame`, but other hosts of a job are asked,
  // too, and history is not. With neither target nor job everything of this host is read.
  struct Collecting {
    std::string sql;
    std::optional<pid_t> target;
    std::string job;
    bool shows_locals = false;
    std::int64_t timeout_ms = 0;
    std::vector<process::RankProcess> ranks;  // of this host, probed or not
  };
  struct Collected {
    query::QueryAnswer answer;
    cluster::Receipt receipt;
  };
  boost::asio::awaitable<Result<Collected>> Collect(const Collecting& collecting);

  // From now on all questions are about this recording, whatever they name.
  void AskOnly(std::string file) { file_ = std::move(file); }

  // The recordings in a directory. As long as somebody holds them, they are not read again.
  boost::asio::awaitable<Result<std::shared_ptr<const RecordedJob>>> Recorded(std::string directory);

 private:
  boost::asio::awaitable<Result<server::Content>> Compute(const server::Request& request,
                                                          std::optional<pid_t> target);
  QueryPool& PoolFor(query::Format format);
  // When this is cancelled, so is the query.
  boost::asio::awaitable<query::QueryAnswer> Run(const query::QueryRequest& request, QueryPool& pool);
  // Lifetime: `gathering` outlives the query. `ranks` are those of this host, when a job is asked about.
  Result<query::QueryRequest> Prepare(const server::Request& request, std::optional<pid_t> target,
                                      const std::vector<process::RankProcess>& ranks,
                                      cluster::Gathering& gathering);
  // Called on a thread of the pool, in the middle of a query.
  Result<table::Rows> Provide(const table::Table& table, const table::Target* target,
                              const std::vector<std::size_t>& columns, cluster::Gathering& gathering);
  void NoticeNewViews();
  boost::asio::io_context& io_;
  Targets& targets_;
  const Sampling& sampling_;
  const History& history_;
  const Outlets& outlets_;
  OtherHosts& hosts_;
  const wire::Settings& settings_;
  std::string views_;  // the files with views of the user's own, as they were seen last
  std::string file_;   // see AskOnly()
  std::shared_ptr<const RecordedJob> recorded_;  // the last one, for a moment
  boost::asio::steady_timer recorded_until_;
  SharedAnswers shared_;
  QueryPool own_;
  std::optional<QueryPool> for_hosts_;  // once one of them has asked
  Unseen unseen_;
};

}  // namespace probing::daemon
