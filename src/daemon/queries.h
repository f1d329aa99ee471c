// SQL for whoever asks: gathers what a query may see and has a query worker answer it.
//
// The worker is a process of its own (query/client.h). What it cannot read itself, because it is
// in this process or behind the connection to a probe, it asks for through Provide(); what other hosts have,
// for `global`, is gathered from them (cluster/gathering.h). Their questions have workers of their own, so
// that two hosts which ask each other never wait for each other.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "cluster/gathering.h"
#include "daemon/history.h"
#include "daemon/sampling.h"
#include "daemon/targets.h"
#include "query/client.h"
#include "server/router.h"
#include "wire/settings.h"

namespace probing::daemon {

class Queries {
 public:
  Queries(boost::asio::io_context& io, Targets& targets, const Sampling& sampling, const History& history,
          cluster::Members& members, const wire::Settings& settings);

  // POST /api/v1/query.
  boost::asio::awaitable<Result<server::Content>> Answer(const server::Request& request,
                                                         std::optional<pid_t> target);

 private:
  // Workers, and threads that wait for them, so that the daemon's own need not.
  struct Pool {
    Pool();
    query::QueryClient client;
    boost::asio::thread_pool threads;
  };

  Pool& PoolFor(query::Format format);
  // When this is cancelled, so is the query.
  boost::asio::awaitable<query::QueryAnswer> Run(const query::QueryRequest& request);
  // Lifetime: `gathering` outlives the query.
  Result<query::QueryRequest> Prepare(const server::Request& request, std::optional<pid_t> target,
                                      cluster::Gathering& gathering);
  // Called on a thread of the pool, in the middle of a query.
  Result<table::Rows> Provide(const table::Table& table, const table::Target* target,
                              const std::vector<std::size_t>& columns, cluster::Gathering& gathering);
  cluster::GatheringOptions Hosts() const;

  void NoticeNewViews();

  boost::asio::io_context& io_;
  Targets& targets_;
  const Sampling& sampling_;
  const History& history_;
  cluster::Members& members_;
  const wire::Settings& settings_;
  std::string views_;  // the files with views of the user's own, as they were seen last
  Pool own_;
  std::optional<Pool> for_hosts_;  // once one of them has asked
};

}  // namespace probing::daemon
