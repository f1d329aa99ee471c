// Sender: messages on their way to one server: a queue with an end, and a thread that empties it.
//
// What the server does not take for the moment is tried again, after one second, two, four, up to a minute;
// what it refuses is dropped. When the queue is full the oldest is dropped. Everything is counted. Used from
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "outlet/http_post.h"

namespace probing::outlet {

struct Message {
  std::string path;  // follows that of the URL
  std::string content_type;
  std::string body;
  std::uint64_t items = 1;  // alerts, records or spans in it
};

struct SenderStatus {
  std::uint64_t sent = 0;     // items that the server has taken
  std::uint64_t waiting = 0;  // items
  std::uint64_t failed = 0;   // tries
  std::uint64_t dropped = 0;  // items
  std::string problem;        // the latest; "" when there was none
  std::int64_t problem_ns = 0;
  std::int64_t sent_ns = 0;  // wall time of the latest success
};

class Sender {
 public:
  static constexpr std::size_t kMostMessages = 256;
  static constexpr std::size_t kMostBytes = 8UL << 20;

  explicit Sender(Destination to);
  // Tells the thread to stop and does not wait for it: what waits is gone.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void Send(Message message);
  SenderStatus status() const;

 private:
  struct State;
  static void* Run(void* state) noexcept;
  static void Loop(State& state);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this for a moment
};

}  // namespace probing::outlet
