// Writes incidents by itself, when a finding says that a job hangs or has died and probing.incident.on wants
// that: the moment is over when somebody comes to look.
//
// Bounded: nothing is looked at while the setting says none; each finding gets one file, a minute has one at
// most, and when there are probing.incident.files of them in the folder the oldest goes. Runs on the daemon's
// thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <string>

#include "daemon/api.h"

namespace probing::daemon {

class IncidentWatch {
 public:
  // Lifetime: the daemon outlives this, and this io.run().
  explicit IncidentWatch(Daemon& daemon) : daemon_(daemon) {}

  // From now on.
  void Watch();

 private:
  boost::asio::awaitable<void> Run();
  boost::asio::awaitable<void> Look();
  boost::asio::awaitable<bool> Write(const server::Json& finding);
  std::string Directory() const;
  bool IsWanted(const std::string& class_name) const;

  Daemon& daemon_;
  std::map<std::string, bool> known_;  // findings that have their file, and whether they were found again
  std::int64_t last_ns_ = 0;           // when a file was written
};

}  // namespace probing::daemon
