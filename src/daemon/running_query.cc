#include "daemon/running_query.h"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/post.hpp>

namespace probing::daemon {
namespace asio = boost::asio;

void RunningQuery::Start() {
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler_);
  if (slot.is_connected()) {
    slot.assign([self = weak_from_this()](asio::cancellation_type) {
      const std::shared_ptr<RunningQuery> query = self.lock();
      if (query == nullptr) return;
      query->request_.cancellation->Cancel();
      query->too_late_.cancel();
    });
  }
  started_ = client_.Start(request_);
  if (started_ == nullptr) return WaitOnThread();
  socket_.assign(started_->socket());
  Await();
}

// Whatever is not simply the answer is left to a thread: it sees that the query was cancelled, or that its
// worker has not ended it in time.
void RunningQuery::Await() {
  const auto self = shared_from_this();
  too_late_.expires_after(std::chrono::milliseconds(request_.limits.timeout_ms));
  too_late_.async_wait([self](boost::system::error_code) {
    if (self->socket_.is_open()) self->socket_.cancel();
  });
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self](boost::system::error_code error) {
    self->socket_.release();
    self->too_late_.cancel();
    if (error) return self->WaitOnThread();
    if (std::optional<query::QueryAnswer> answer = self->started_->Take()) {
      self->started_.reset();
      return self->Complete(std::move(*answer));
    }
    self->WaitOnThread();
  });
}

void RunningQuery::WaitOnThread() {
  asio::post(threads_, [self = shared_from_this()] {
    query::QueryAnswer answer =
        self->started_ != nullptr ? self->started_->Finish() : self->client_.Run(self->request_);
    self->started_.reset();
    asio::post(self->io_,
               [self, answer = std::move(answer)]() mutable { self->Complete(std::move(answer)); });
  });
}

void RunningQuery::Complete(query::QueryAnswer answer) {
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler_);
  if (slot.is_connected()) slot.clear();
  std::move(handler_)(std::move(answer));
}

}  // namespace probing::daemon
