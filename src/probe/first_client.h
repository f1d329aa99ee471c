// PROBE_BG=0: a program that was started under the probe (LD_PRELOAD, `probing run`, PROBING=1) begins when
// its first client has come. A client is a request of a user about this process; probingd and the command
// line tell of it with the verb `client`. The connection that probingd holds is none.
//
// The program never waits where no client can come: when the probe cannot listen, when the address it was
// started with is not served, or after `eject`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "wire/message.h"

namespace probing::probe {

// Whether the environment says PROBE_BG=0.
bool IsFirstClientAwaited();

// Holds the calling thread until LetProgramStart(); signals do what they always do to it. From then on
// PROBE_BG is 1 here: programs that this one starts, or becomes by exec, do not wait again.
// REQUIRES: IsFirstClientAwaited(), no other thread of the job runs.
void AwaitFirstClient();
// From any thread, any number of times.
void LetProgramStart();

// What the probe's thread knows about it. Belongs to that thread.
class FirstClient {
 public:
  using Send = std::function<void(int client_fd, const wire::Message& answer)>;
  explicit FirstClient(Send send);

  bool is_awaited() const { return is_awaited_; }
  // The verb `client`. Answered when there is an interpreter, so that what the client asks next is about the
  // program. A field `reason` says why no client can come.
  void OnClient(int client_fd, const wire::Message& request);
  // The verb `wait` of the start hook, answered when a client has come.
  void OnWait(int client_fd, const wire::Message& request);
  // The program was started with an address: without a probingd after some time it goes on.
  void ExpectDaemon();
  void OnDaemon() { daemon_expected_.reset(); }
  void GiveUp(const std::string& reason);

  void Forget(int client_fd);
  void Look();
  int NextLookMs() const;

 private:
  struct Waiting {
    int client_fd;
    std::uint32_t id;
  };
  void Open();
  void AnswerAll(std::vector<Waiting>& list);

  const Send send_;
  bool is_awaited_;
  std::vector<Waiting> hooks_;     // wait for a client
  std::vector<Waiting> starting_;  // are clients, and wait for the interpreter
  std::optional<Deadline> started_by_;
  std::optional<Deadline> daemon_expected_;
};

}  // namespace probing::probe
