// The probe's one thread: its socket, its clients, what they ask for. control.cc has the loop, verbs.cc
// what each verb does.
#pragma once

#include <memory>
#include <vector>

#include "probe/client.h"
#include "probe/evaluations.h"
#include "probe/first_client.h"
#include "probe/start_daemon.h"
#include "probe/upkeep.h"
#include "torch/flight_recorder.h"
#include "wire/message.h"
#include "wire/rendezvous.h"
#include "wire/settings.h"

namespace probing::probe {

class Control {
 public:
  // Lifetime: `wake_fd` is an eventfd that outlives this.
  Control(int wake_fd, wire::Listener listener);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // What StartDaemonIfAsked() said.
  void NoteServing(Serving serving);

  // Returns after `eject`, or for a pause, after which another thread calls it again.
  enum class End : std::uint8_t {
    kReleased,   // nothing of ours is left in use, the code may go
    kFunctions,  // the job has functions of ours, or is in a call of one; no thread of ours is left
    kInUse,      // a thread of ours may still wait for the GIL
    kPaused,
  };
  End Serve();

  int wake_fd() const { return wake_fd_; }

 private:
  void Accept();
  void ReadFrom(Client& client);
  void Drop(Client& client);
  void Send(int client_fd, const wire::Message& answer, int attached = -1);

  void Handle(Client& client, const wire::Message& request);
  void Evaluate(const Client& client, const wire::Message& request, console::Work work);
  wire::Message Hello(std::uint32_t id) const;
  wire::Message Status(std::uint32_t id) const;
  wire::Message Configure(const wire::Message& request);
  wire::Message Leave(std::uint32_t id);
  void LeaveIfPossible();
  void StopListening();
  void SendRings(const Client& client, const wire::Message& request);
  void SendOverhead(const Client& client, const wire::Message& request);
  void ReadCollectives(const Client& client, const wire::Message& request);
  void OnCollectivesRead();
  console::Work EvaluationOf(const wire::Message& request) const;

  const int wake_fd_;
  wire::Listener listener_;
  std::vector<std::unique_ptr<Client>> clients_;
  wire::Settings settings_;
  Evaluations evaluations_;
  Upkeep upkeep_;
  FirstClient first_client_;
  torch::FlightReader flight_reader_;
  struct Waiting {
    int client_fd;
    std::uint32_t id;
  };
  std::vector<Waiting> wait_for_collectives_;
  std::int64_t turns_ = 0;       // of Serve()
  std::int64_t earlier_ns_ = 0;  // CPU time of threads that ended for a pause
  bool leaving_ = false;
  bool leaves_soon_ = false;  // it was told to, and waits for the GIL
  End end_ = End::kInUse;
};

}  // namespace probing::probe
