// A query on its way, waited for without a thread when a worker is there and its answer comes at once, and on
// a thread of the pool otherwise: when no worker runs yet, rows have to be made for it, or the answer is
// long.
//
// Those that find all workers busy stand in line. A worker that becomes free gets several of them at once if
// they are known to be quick: between two processes the way is longer than such a query.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>

#include "query/client.h"
#include "query/started_query.h"

namespace probing::daemon {

class RunningQuery;
using RunningQueryPtr = std::shared_ptr<RunningQuery>;  // shared by what it waits for
using Line = std::deque<RunningQueryPtr>;

// Which questions were answered at once when they were asked last.
class QuickQuestions {
 public:
  bool Has(const std::string& sql) const { return known_.contains(std::hash<std::string>()(sql)); }
  void Note(const std::string& sql, bool is_quick);

 private:
  std::unordered_set<std::size_t> known_;
};

// Workers, threads that wait for them, so that the daemon's own need not, and who waits for one of them.
struct QueryPool {
  QueryPool(query::ClientOptions options, std::size_t thread_count)
      : client(std::move(options)), threads(thread_count) {}

  query::QueryClient client;
  Line line;
  QuickQuestions quick;
  boost::asio::thread_pool threads;  // last: what runs there uses the others
};

class RunningQuery : public std::enable_shared_from_this<RunningQuery> {
 public:
  using Handler = boost::asio::any_completion_handler<void(query::QueryAnswer)>;

  // The handler is called on the io_context's thread. Its cancellation cancels the query.
  // REQUIRES: all others outlive the call of the handler.
  RunningQuery(boost::asio::io_context& io, QueryPool& pool, const query::QueryRequest& request,
               Handler handler)
      : io_(io), pool_(pool), request_(request), handler_(std::move(handler)), too_late_(io) {}

  void Start();

 private:
  using Clock = std::chrono::steady_clock;
  // A worker that has begun this one, and those that were sent with it, in their order.
  struct Lane {
    explicit Lane(boost::asio::io_context& io) : socket(io) {}
    boost::asio::posix::stream_descriptor socket;  // borrowed from the worker
    Line queries;                                  // the first is the one that is waited for
  };

  void Begin();
  void StandInLine(Line::const_iterator before);
  bool IsQuick() const;
  static void FillLane(const std::shared_ptr<Lane>& lane);
  void WatchTime(const std::shared_ptr<Lane>& lane);
  void Await(const std::shared_ptr<Lane>& lane);
  void Take(const std::shared_ptr<Lane>& lane);
  void LeaveLane(const std::shared_ptr<Lane>& lane);
  void WaitOnThread();
  void Complete(query::QueryAnswer answer);
  void LetOthersBegin();

  boost::asio::io_context& io_;
  QueryPool& pool_;
  const query::QueryRequest& request_;
  Handler handler_;
  std::unique_ptr<query::StartedQuery> started_;  // null when a thread has to do all of it
  Clock::time_point since_{};                     // it is its turn
  boost::asio::steady_timer too_late_;
};

}  // namespace probing::daemon
