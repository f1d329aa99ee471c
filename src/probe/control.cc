#include "probe/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/scoped_fd.h"
#include "probe/control_thread.h"
#include "probe/fork_pause.h"
#include "probe/lifecycle.h"
#include "probe/recording.h"
#include "probe/start_daemon.h"
#include "record/events.h"
#include "record/recorder.h"
#include "wire/rendezvous.h"

namespace probing::probe {
namespace {

constexpr std::size_t kMaxClients = 48;
constexpr std::int64_t kForkDelayUs = 50'000;
constexpr int kLeaveEveryMs = 100;  // how often a probe that waits for the GIL tries to leave

}  // namespace

Control::Control(int wake_fd, wire::Listener listener)
    : wake_fd_(wake_fd),
      listener_(std::move(listener)),
      settings_(wire::Holder::kProbe),
      evaluations_(wake_fd, [this](int client_fd, const wire::Message& answer) { Send(client_fd, answer); }),
      upkeep_(settings_, evaluations_),
      first_client_([this](int client_fd, const wire::Message& answer) { Send(client_fd, answer); }),
      flight_reader_(wake_fd) {
  const std::vector<Error> errors = settings_.LoadEnvironment();  // a bad value keeps the default
  FollowForks(settings_.GetFlag("probing.nested"));
  (void)record::Recorder::Open(LimitsOf(settings_));
  for (const Error& error : errors) record::WriteEvent("probing.config", error.message + "; " + error.hint);
}

void Control::NoteServing(Serving serving) {
  if (serving == Serving::kImpossible) first_client_.GiveUp("no probingd can be started");
  if (serving == Serving::kExpected) first_client_.ExpectDaemon();
}

Control::End Control::Serve() {
  OfferPause(wake_fd_);
  while (!leaving_) {
    std::vector<pollfd> fds{{listener_.socket.get(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (const auto& client : clients_) {
      fds.push_back(
          {client->fd(), static_cast<short>(client->has_outgoing() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    const std::size_t clients_end = fds.size();
    for (const int fd : evaluations_.ChildOutputs()) fds.push_back({fd, POLLIN, 0});
    const int upkeep_ms = leaves_soon_ ? kLeaveEveryMs : upkeep_.NextLookMs();
    const int wait_ms = std::min({upkeep_ms, evaluations_.NextDeadlineMs(), first_client_.NextLookMs()});
    if (poll(fds.data(), fds.size(), wait_ms) < 0 && errno != EINTR) break;
    const bool is_busy = leaves_soon_ || evaluations_.busy();
    if (PauseIfAsked(this, is_busy ? Activity::kBusy : Activity::kIdle)) {
      earlier_ns_ += ReadClockNs(CLOCK_THREAD_CPUTIME_ID);
      return End::kPaused;
    }
    if (fds[1].revents != 0) {
      evaluations_.OnWake();
      OnCollectivesRead();
    }
    evaluations_.OnDeadlines();
    first_client_.Look();
    const bool printed = std::any_of(fds.begin() + static_cast<std::ptrdiff_t>(clients_end), fds.end(),
                                     [](const pollfd& fd) { return fd.revents != 0; });
    if (printed) evaluations_.OnChildOutput();
    for (std::size_t i = 2; i < clients_end; ++i) {
      Client& client = *clients_[i - 2];
      if ((fds[i].revents & POLLOUT) != 0 && !client.Flush()) Drop(client);
      if ((fds[i].revents & ~POLLOUT) != 0) ReadFrom(client);
    }
    std::erase_if(clients_, [](const auto& client) { return client->gone(); });
    if (fds[0].revents != 0) Accept();
    if (!leaving_ && leaves_soon_) LeaveIfPossible();
    if (!leaving_ && !leaves_soon_) upkeep_.Look();
    ++turns_;
  }
  OfferPause(-1);
  for (const auto& client : clients_) client->Close();
  CloseOwn(listener_.socket);
  return end_;
}

// Before anyone hears that this probe leaves: the next one may come at once, and has the same path.
void Control::StopListening() {
  RemoveSocket();
  CloseOwn(listener_.socket);
}

void Control::Accept() {
  const NoForkNow hold;
  ScopedFd socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() || clients_.size() >= kMaxClients || !wire::PeerIsTrusted(socket.get())) return;
  ForkClosed::Add(socket.get());
  clients_.push_back(std::make_unique<Client>(std::move(socket)));
}

void Control::ReadFrom(Client& client) {
  if (client.gone()) return;
  if (!client.Receive()) return Drop(client);
  while (!client.gone() && !leaving_) {
    auto message = client.decoder().Next();
    if (!message.ok()) return Drop(client);
    if (!message->has_value()) return;
    Handle(client, **message);
  }
}

void Control::Drop(Client& client) {
  if (client.gone()) return;
  evaluations_.Forget(client.fd());
  first_client_.Forget(client.fd());
  std::erase_if(wait_for_collectives_, [&](const Waiting& one) { return one.client_fd == client.fd(); });
  client.Close();
}

void Control::Send(int client_fd, const wire::Message& answer, int attached) {
  for (const auto& client : clients_) {
    if (client->gone() || client->fd() != client_fd) continue;
    if (!client->Send(answer.Encode(), attached)) Drop(*client);
    return;
  }
}

namespace {

// What probing_control_main returns: a library to be unmapped, or null.
void* ServeAndLeave(std::unique_ptr<Control> control) {
  switch (control->Serve()) {
    case Control::End::kReleased: {
      ScopedFd wake(control->wake_fd());
      control.reset();
      CloseOwn(wake);
      return Leave(Unload::kYes);
    }
    case Control::End::kFunctions: {
      ScopedFd wake(control->wake_fd());
      control.reset();
      CloseOwn(wake);
      UnloadWhenUnused();
      return Leave(Unload::kNo);
    }
    case Control::End::kInUse:
      // A thread of ours may still be waiting for the GIL and will look at these when it comes.
      (void)control.release();
      return Leave(Unload::kNo);
    case Control::End::kPaused:
      (void)control.release();  // another thread has it, perhaps by now
      return nullptr;
  }
  return nullptr;
}

}  // namespace
}  // namespace probing::probe

extern "C" void* probing_control_main(void* argument) {
  using namespace probing;
  using namespace probing::probe;
  const std::unique_ptr<ControlOptions> options(static_cast<ControlOptions*>(argument));
  if (options->unloads) return UnloadUnused();
  NoteControlThread();
  if (options->paused != nullptr) return ServeAndLeave(std::unique_ptr<Control>(options->paused));
  if (options->delay == ControlOptions::Delay::kAfterFork) SleepUs(kForkDelayUs);
  ScopedFd socket;
  ScopedFd wake;
  {
    const NoForkNow hold;
    socket = wire::MakeListenerSocket();
    wake.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    ForkClosed::Add(socket.get());
    ForkClosed::Add(wake.get());
  }
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);  // a client that is gone again must not make accept wait
  Result<wire::Listener> listener = Error{};
  if (wake.valid()) listener = wire::Listen(std::to_string(getpid()), std::move(socket));
  if (!listener.ok()) {
    CloseOwn(socket);
    CloseOwn(wake);
    return Leave(Unload::kYes);
  }
  RememberSocket(listener->path);
  Serving serving = Serving::kNotAsked;
  if (ThisOrigin() != Origin::kInjected) serving = StartDaemonIfAsked(LibraryPath());
  auto control = std::make_unique<Control>(wake.get(), std::move(*listener));
  control->NoteServing(serving);
  (void)wake.Release();  // with the control's own life
  return ServeAndLeave(std::move(control));
}
