#include "daemon/running_query.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/post.hpp>

namespace probing::daemon {
namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kQuick{2};
// One that was quick and is not any more holds up those that were sent with it for no longer.
constexpr milliseconds kPatience{50};
constexpr std::size_t kMostInLane = 8;
// So that all of a lane fits into its socket: who sends must not have to wait.
constexpr std::size_t kMostSqlBytes = 2000;
constexpr std::size_t kMostTargets = 16;
constexpr std::size_t kMostRemembered = 4096;

bool IsReadable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

}  // namespace

void QuickQuestions::Note(const std::string& sql, bool is_quick) {
  const std::size_t hash = std::hash<std::string>()(sql);
  if (!is_quick) {
    known_.erase(hash);
    return;
  }
  if (known_.size() >= kMostRemembered) known_.clear();
  known_.insert(hash);
}

void RunningQuery::Start() {
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler_);
  if (slot.is_connected()) {
    slot.assign([self = weak_from_this()](asio::cancellation_type) {
      const RunningQueryPtr query = self.lock();
      if (query == nullptr) return;
      query->request_.cancellation->Cancel();
      query->too_late_.cancel();
    });
  }
  // Whoever came before goes first.
  if (pool_.line.empty()) return Begin();
  StandInLine(pool_.line.end());
  LetOthersBegin();
}

void RunningQuery::Begin() {
  started_ = pool_.client.Start(request_);
  if (started_ != nullptr) {
    const auto lane = std::make_shared<Lane>(io_);
    lane->socket.assign(started_->socket());
    lane->queries.push_back(shared_from_this());
    FillLane(lane);
    return Await(lane);
  }
  if (pool_.client.is_full()) return StandInLine(pool_.line.end());
  WaitOnThread();
}

void RunningQuery::StandInLine(Line::const_iterator before) {
  pool_.line.insert(before, shared_from_this());
  too_late_.expires_after(milliseconds(query::kQueueMs));
  too_late_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    auto& line = self->pool_.line;
    const auto place = std::find(line.begin(), line.end(), self);
    if (place == line.end()) return;  // its turn has come; the request may be gone by now
    if (error && !self->request_.cancellation->cancelled()) return;  // it came, and went again
    line.erase(place);
    query::QueryAnswer answer;
    answer.error = error ? query::CancelledError() : query::QueueError();
    self->Complete(std::move(answer));
  });
}

bool RunningQuery::IsQuick() const {
  return request_.sql.size() <= kMostSqlBytes && request_.targets.size() <= kMostTargets &&
         pool_.quick.Has(request_.sql);
}

void RunningQuery::FillLane(const std::shared_ptr<Lane>& lane) {
  Line& line = lane->queries.front()->pool_.line;
  while (!line.empty() && lane->queries.size() < kMostInLane && lane->queries.back()->IsQuick() &&
         line.front()->IsQuick()) {
    RunningQuery& next = *line.front();
    next.started_ = lane->queries.back()->started_->SendNext(next.request_);
    if (next.started_ == nullptr) return;
    next.too_late_.cancel();
    lane->queries.push_back(std::move(line.front()));
    line.pop_front();
  }
}

// When it is too late, or the query was cancelled. One that is quick and has others behind it ends by itself.
void RunningQuery::WatchTime(const std::shared_ptr<Lane>& lane) {
  const bool is_alone = lane->queries.size() == 1;
  too_late_.expires_after(is_alone ? milliseconds(request_.limits.timeout_ms) : kPatience);
  too_late_.async_wait([self = shared_from_this(), lane](boost::system::error_code error) {
    const bool is_waiting = lane->socket.is_open() && lane->queries.front() == self;
    if (!is_waiting) return;
    if (error && lane->queries.size() > 1) return self->WatchTime(lane);
    lane->socket.cancel();
  });
}

void RunningQuery::Await(const std::shared_ptr<Lane>& lane) {
  since_ = Clock::now();
  WatchTime(lane);
  lane->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this(), lane](boost::system::error_code error) {
                            if (error) return self->LeaveLane(lane);
                            self->Take(lane);
                          });
}

// What has been answered of those in the lane.
void RunningQuery::Take(const std::shared_ptr<Lane>& lane) {
  const bool is_last = lane->queries.size() == 1;
  if (is_last) lane->socket.release();  // its worker may be somebody else's at once
  std::optional<query::QueryAnswer> answer = started_->Take();
  if (!answer) return LeaveLane(lane);
  const RunningQueryPtr self = std::move(lane->queries.front());
  lane->queries.pop_front();
  started_.reset();
  pool_.quick.Note(request_.sql, Clock::now() - since_ < kQuick);
  if (is_last) return Complete(std::move(*answer));
  RunningQuery& next = *lane->queries.front();
  if (next.started_->is_orphan()) {
    next.LeaveLane(lane);
  } else if (IsReadable(next.started_->socket())) {
    asio::post(io_, [lane] { lane->queries.front()->Take(lane); });
    next.since_ = Clock::now();
  } else {
    next.Await(lane);
  }
  Complete(std::move(*answer));
}

// Whatever is not simply the answer is left to a thread: it sees that the query was cancelled, or that its
// worker has not ended it in time. Those behind it do not wait for that.
void RunningQuery::LeaveLane(const std::shared_ptr<Lane>& lane) {
  const RunningQueryPtr self = std::move(lane->queries.front());
  lane->queries.pop_front();
  if (lane->socket.is_open()) lane->socket.release();
  too_late_.cancel();
  pool_.quick.Note(request_.sql, false);
  for (auto each = lane->queries.rbegin(); each != lane->queries.rend(); ++each) {
    if (!started_->is_orphan()) (*each)->started_->Abandon();
    (*each)->started_.reset();
    (*each)->StandInLine(pool_.line.begin());
  }
  lane->queries.clear();
  WaitOnThread();
  LetOthersBegin();
}

void RunningQuery::WaitOnThread() {
  asio::post(pool_.threads, [self = shared_from_this()] {
    query::QueryAnswer answer =
        self->started_ != nullptr ? self->started_->Finish() : self->pool_.client.Run(self->request_);
    self->started_.reset();
    asio::post(self->io_,
               [self, answer = std::move(answer)]() mutable { self->Complete(std::move(answer)); });
  });
}

void RunningQuery::LetOthersBegin() {
  if (pool_.line.empty() || pool_.client.is_full()) return;
  const RunningQueryPtr next = std::move(pool_.line.front());
  pool_.line.pop_front();
  next->Begin();
}

// Its worker has been given back, so somebody else's turn has come.
void RunningQuery::Complete(query::QueryAnswer answer) {
  too_late_.cancel();
  LetOthersBegin();
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler_);
  if (slot.is_connected()) slot.clear();
  std::move(handler_)(std::move(answer));
}

}  // namespace probing::daemon
