// SQL for whoever asks: gathers what a query may see and has a query worker answer it.
//
// The worker is a process of its own (query/client.h). What it cannot read itself, because it is
// in this process or behind the connection to a probe, it asks for through Provide().
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

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
          const wire::Settings& settings);

  // POST /api/v1/query.
  boost::asio::awaitable<Result<server::Content>> Answer(const server::Request& request,
                                                         std::optional<pid_t> target);

 private:
  // When this is cancelled, so is the query.
  boost::asio::awaitable<query::QueryAnswer> Run(const query::QueryRequest& request);
  Result<query::QueryRequest> Prepare(const server::Request& request, std::optional<pid_t> target);
  // Called on a thread of the pool, in the middle of a query.
  Result<table::Rows> Provide(const table::Table& table, const table::Target* target,
                              const std::vector<std::size_t>& columns);

  void NoticeNewViews();

  boost::asio::io_context& io_;
  Targets& targets_;
  const Sampling& sampling_;
  const History& history_;
  const wire::Settings& settings_;
  query::QueryClient client_;
  std::string views_;                 // the files with views of the user's own, as they were seen last
  boost::asio::thread_pool threads_;  // that wait for workers, so that the daemon's own need not
};

}  // namespace probing::daemon
