// A session's talk with a target: one WebSocket that is opened when it is needed, and opened again when it
// was lost. The session's variables are in the target, under its name, and survive that.
//
// Ask() may be called from any thread, one waits for another; Interrupt() at any time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "cli/daemon_client.h"
#include "cli/web_socket.h"

namespace probing::cli {

class ReplClient {
 public:
  struct Question {
    const char* op = "line";
    std::string code;
    double timeout_s = 0;
    bool whole = false;      // no more lines come
    bool confirmed = false;  // also when it may end the job
    // What the code prints, while it runs; null to have it with the answer.
    std::function<void(const std::string& out, const std::string& err)> on_output = nullptr;
  };

  ReplClient(pid_t target, std::string session, bool ipython);

  // When the connection goes away meanwhile nobody knows how far the code came: it is not asked for again.
  Result<Json> Ask(const Question& question);
  void Interrupt() const;

  // To be called now and then while nobody asks: answers the connection's own questions. False, once, when
  // the connection is gone; the next Ask() makes a new one.
  bool StillThere();

 private:
  Result<std::shared_ptr<WebSocket>> Connected();

  const pid_t target_;
  const std::string session_;
  const bool ipython_;
  std::mutex asking_;  // held from a question to its answer; guards what follows
  std::shared_ptr<WebSocket> socket_;
  int last_id_ = 0;
};

}  // namespace probing::cli
