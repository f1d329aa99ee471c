// What this probingd knows of its surroundings, for those who look for other hosts (cluster/finding.h); and
// keeps in touch with a few of them. Runs on the daemon's thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "cluster/gathering.h"
#include "cluster/members.h"
#include "daemon/targets.h"
#include "wire/settings.h"

namespace probing::daemon {

class OtherHosts {
 public:
  // Everything outlives this.
  OtherHosts(boost::asio::io_context& io, const Targets& targets, cluster::Members& members,
             const wire::Settings& settings);

  cluster::Members& members() { return members_; }

  // For one query.
  cluster::GatheringOptions Options() const;

  // From now on some hosts are told every few seconds that we are there.
  void Watch();

 private:
  cluster::Wanted Wanted() const;
  boost::asio::awaitable<void> KeepInTouch();

  boost::asio::io_context& io_;
  const Targets& targets_;
  cluster::Members& members_;
  const wire::Settings& settings_;
  boost::asio::thread_pool thread_;  // waits for them
  bool is_asking_ = false;
};

}  // namespace probing::daemon
