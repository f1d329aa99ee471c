// A query on its way, waited for without a thread when a worker is free and its answer comes at once,
// and on a thread of the pool otherwise: when no worker runs yet, rows have to be made for it, or the
// answer is long.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>

#include "query/client.h"
#include "query/started_query.h"

namespace probing::daemon {

class RunningQuery : public std::enable_shared_from_this<RunningQuery> {
 public:
  using Handler = boost::asio::any_completion_handler<void(query::QueryAnswer)>;

  // The handler is called on the io_context's thread. Its cancellation cancels the query.
  // REQUIRES: all others outlive the call of the handler.
  RunningQuery(boost::asio::io_context& io, boost::asio::thread_pool& threads, query::QueryClient& client,
               const query::QueryRequest& request, Handler handler)
      : io_(io),
        threads_(threads),
        client_(client),
        request_(request),
        handler_(std::move(handler)),
        socket_(io),
        too_late_(io) {}

  void Start();

 private:
  void Await();
  void WaitOnThread();
  void Complete(query::QueryAnswer answer);

  boost::asio::io_context& io_;
  boost::asio::thread_pool& threads_;
  query::QueryClient& client_;
  const query::QueryRequest& request_;
  Handler handler_;
  std::unique_ptr<query::StartedQuery> started_;  // null when a thread has to do all of it
  boost::asio::posix::stream_descriptor socket_;  // borrowed from it
  boost::asio::steady_timer too_late_;
};

}  // namespace probing::daemon
