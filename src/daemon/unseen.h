// Why an answer may have fewer rows than people expect: ranks without a probe, tracing that is off, programs
// without torch. Runs on the daemon's one thread; what takes long is done on others.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "daemon/targets.h"
#include "process/job_identity.h"

namespace probing::daemon {

class Unseen {
 public:
  // All of them outlive this.
  Unseen(boost::asio::io_context& io, boost::asio::thread_pool& threads, Targets& targets)
      : io_(io), threads_(threads), targets_(targets) {}

  struct Question {
    std::string sql;
    std::optional<pid_t> target;     // one process
    std::optional<std::string> job;  // its ranks; nothing: all of this host
    std::int64_t rows = 0;           // of the answer
  };
  struct Report {
    std::vector<std::string> warnings;  // each with the command that changes it
    bool ranks_are_missing = false;
  };
  boost::asio::awaitable<Report> Explain(Question question);

 private:
  boost::asio::awaitable<void> FindRanks();
  // Ranks of this host that have no probe.
  boost::asio::awaitable<std::vector<process::RankProcess>> WithoutProbe(std::optional<std::string> job);
  // Why there is nothing about PyTorch; "" where that is not the reason.
  boost::asio::awaitable<std::string> WhyNoTorch(std::string table, std::vector<pid_t> pids);

  boost::asio::io_context& io_;
  boost::asio::thread_pool& threads_;
  Targets& targets_;
  // As they were found last: looking takes longer than most queries do.
  std::optional<std::vector<process::RankProcess>> ranks_;
  std::chrono::steady_clock::time_point found_;
  bool is_looking_ = false;
};

}  // namespace probing::daemon
