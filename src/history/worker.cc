#include "history/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "history/collector.h"
#include "history/retention.h"
#include "history/shipper.h"
#include "query/protocol.h"
#include "query/worker.h"

namespace probing::history {
namespace {

using query::FrameType;
using query::kWorkerSocket;

// A ring of 10,000 rows that is written at 10,000 rows/s is overwritten in a second.
constexpr int kLookMs = 200;
constexpr std::int64_t kPruneNs = 60'000'000'000;
constexpr std::int64_t kFrameTimeoutMs = 10'000;
constexpr std::int64_t kDrainMs = 3'000;
constexpr rlim_t kMaxDataBytes = 512UL << 20;

void LimitProcess() {
  const rlimit data{kMaxDataBytes, kMaxDataBytes};
  setrlimit(RLIMIT_DATA, &data);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGPIPE, SIG_IGN);  // a server that goes away is an error
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, as a full disk is
  const ScopedFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score.valid()) (void)WriteAll(score.get(), "1000");
}

std::vector<ScopedFd> CopiesOf(const std::vector<ScopedFd>& files) {
  std::vector<ScopedFd> copies;
  for (const ScopedFd& file : files) copies.emplace_back(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  return copies;
}

class Worker {
 public:
  void Run() {
    while (true) {
      pollfd watched{kWorkerSocket, POLLIN, 0};
      const int ready = poll(&watched, 1, kLookMs);
      if (ready < 0 && errno != EINTR) return;
      if (ready > 0 && !Receive()) break;
      if (ready == 0) Look();
    }
    // probingd has gone. What it wrote itself is lost with this process.
    if (collector_) collector_->Collect(Collector::Which::kAll, 0);
    EndShipping();
  }

 private:
  bool Receive() {
    Result<query::Frame> frame = query::ReceiveFrame(kWorkerSocket, Deadline::AfterMs(kFrameTimeoutMs));
    if (!frame.ok()) return false;
    if (frame->type == FrameType::kFiles) {
      for (ScopedFd& file : frame->files) files_.push_back(std::move(file));
      return true;
    }
    StateMessage state;
    if (frame->type != FrameType::kHistory || !Decode(frame->payload, state)) return false;
    const bool moves = state.directory != state_.directory;
    if (moves && collector_) {
      collector_->Collect(Collector::Which::kAll, 0);
      collector_.reset();
      writer_.reset();
    }
    if (state.store != state_.store || state.spool != state_.spool) EndShipping();
    state_ = std::move(state);
    rings_ = std::exchange(files_, {});
    has_news_ = has_news_for_store_ = true;
    next_prune_ns_ = std::min(next_prune_ns_, MonotonicNs());
    Look();
    return true;
  }

  void Look() {
    StatusMessage status;
    if (!state_.directory.empty()) Collect(status);
    if (!state_.store.empty()) Ship(status);
    Tell(std::move(status));
  }

  void Collect(StatusMessage& status) {
    if (const Result<void> opened = OpenWriter(); !opened.ok()) {
      status.problem = opened.error().message;
      return;
    }
    if (std::exchange(has_news_, false)) collector_->SetRings(state_.rings, CopiesOf(rings_));
    collector_->Collect(Collector::Which::kDue, state_.interval_ms * 1'000'000);
    if (MonotonicNs() >= next_prune_ns_) {
      retention_->Prune({state_.retention_days, state_.max_bytes}, WallNs());
      next_prune_ns_ = MonotonicNs() + kPruneNs;
    }
    status.problem = collector_->problem();
    status.tables = collector_->status();
  }

  void Ship(StatusMessage& status) {
    if (const Result<void> opened = OpenShipper(); !opened.ok()) {
      status.store_problem = opened.error().message;
      return;
    }
    if (std::exchange(has_news_for_store_, false)) shipper_->SetRings(state_.rings, CopiesOf(rings_));
    shipper_->Ship(Shipper::Which::kDue, state_.store_interval_ms * 1'000'000);
    status.store = shipper_->status();
  }

  Result<void> OpenShipper() {
    if (shipper_ == nullptr) {
      ASSIGN_OR_RETURN(const wire::StoreUrl url, wire::ParseStoreUrl(state_.store));
      ASSIGN_OR_RETURN(shipper_, Shipper::Open(url, state_.spool));
      has_news_for_store_ = true;
    }
    shipper_->SetMaxBytes(state_.spool_bytes);
    return {};
  }

  // What a server does not take in a moment waits for the next worker.
  void EndShipping() {
    if (shipper_ == nullptr) return;
    shipper_->Ship(Shipper::Which::kAll, 0);
    shipper_->Drain(kDrainMs);
    shipper_.reset();
  }

  // Another one may still be at work there: the worker of a probingd that was killed.
  Result<void> OpenWriter() {
    if (writer_ != nullptr) return {};
    ASSIGN_OR_RETURN(writer_, FileWriter::Open(state_.directory, state_.host));
    collector_.emplace(*writer_);
    retention_.emplace(state_.directory);
    next_prune_ns_ = 0;
    return {};
  }

  void Tell(StatusMessage status) {
    if (status == told_) return;
    told_ = std::move(status);
    (void)query::SendFrame(kWorkerSocket, FrameType::kHistoryStatus, Encode(told_));
  }

  StateMessage state_;
  std::vector<ScopedFd> files_;  // of the message that comes next
  std::vector<ScopedFd> rings_;  // of the last message
  bool has_news_ = false;        // that the collector has not heard
  bool has_news_for_store_ = false;
  std::unique_ptr<FileWriter> writer_;
  std::optional<Collector> collector_;
  std::optional<Retention> retention_;
  std::int64_t next_prune_ns_ = 0;
  std::unique_ptr<Shipper> shipper_;
  StatusMessage told_;
};

}  // namespace

int RunHistoryWorker() {
  // Whatever probingd had open and forgot to mark: not ours.
  syscall(SYS_close_range, kWorkerSocket + 1, ~0U, 0);
  LimitProcess();
  try {
    Worker().Run();
  } catch (...) {
    _exit(1);  // out of memory; probingd starts another one, which goes on where the files end
  }
  _exit(0);
}

}  // namespace probing::history
