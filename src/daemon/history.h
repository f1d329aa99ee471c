// History: keeps the history worker running and told, as long as probing.retention_days or probing.store says
// so.
//
// Runs on the daemon's thread; the work is done by a process of its own (history/worker.h).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/targets.h"
#include "history/process.h"
#include "wire/settings.h"

namespace probing::daemon {

class History {
 public:
  History(boost::asio::io_context& io, const Targets& targets, const wire::Settings& settings);

  // From now on.
  void Watch();

  // Where the files are; nothing while history is off.
  std::optional<std::string> directory() const;
  // Where rows go for many hosts together, as it may be shown; nothing while they do not.
  std::optional<std::string> store() const;
  const history::StatusMessage& status() const { return status_; }

 private:
  boost::asio::awaitable<void> Tick();
  void Update();
  Result<void> UpdateWorker();
  void LogNews(const history::StatusMessage& status) const;
  std::string DataDirectory() const;

  boost::asio::io_context& io_;
  const Targets& targets_;
  const wire::Settings& settings_;
  std::unique_ptr<history::HistoryProcess> process_;
  std::string told_;                                         // the last message, encoded
  std::vector<std::shared_ptr<const ScopedFd>> told_rings_;  // shared with the targets
  std::int64_t retry_ns_ = 0;
  history::StatusMessage status_;
};

}  // namespace probing::daemon
