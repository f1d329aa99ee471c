// The debugger in a target, as its clients see it: the command line and the debug adapter.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "cli/daemon_client.h"

namespace probing::cli {

class DebugClient {
 public:
  explicit DebugClient(pid_t target);

  // Says that we are there; a held thread goes on by itself when nobody does for 5 s. Returns how often
  // a thread has stopped so far.
  Result<std::int64_t> Beat() const;

  enum class State : std::uint8_t { kOff, kRunning, kPaused };
  struct Answer {
    State state = State::kOff;
    std::string text;
    bool refused = false;  // `text` says why
  };
  // A word of debug_words.py. An Error when there is no answer at all.
  Result<Answer> Ask(const std::string& word) const;
  // The same as JSON, of a question there.
  Result<Json> Question(const std::string& question) const;

 private:
  const pid_t target_;
  const std::string session_;
};

}  // namespace probing::cli
