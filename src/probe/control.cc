#include "probe/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/scoped_fd.h"
#include "probe/lifecycle.h"
#include "pyapi/evaluator.h"
#include "wire/message.h"
#include "wire/rendezvous.h"
#include "wire/settings.h"

namespace probing::probe {
namespace {

using wire::Message;

constexpr std::size_t kMaxClients = 48;
constexpr std::int64_t kInterruptGraceMs = 300;  // for KeyboardInterrupt to do its work
constexpr std::int64_t kReleaseMs = 2000;
constexpr std::int64_t kForkDelayUs = 50'000;

struct Client {
  ScopedFd socket;
  wire::Decoder decoder;
  std::string outgoing;
  bool gone = false;
};

// An evaluation somebody waits for: the one under way, or one behind it.
struct Pending {
  int client_fd = -1;  // −1: nobody any more
  std::uint32_t id = 0;
  Deadline deadline = Deadline::AfterMs(0);
  std::string code;
  std::string_view reason;  // "timeout" or "cancelled" once it was told to stop
};

std::string_view NoGilNote() {
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->VersionNumber() < 307) {
    return "the GIL did not come; nothing was evaluated. Python 3.6 has none before its first thread, and "
           "only its main thread can make it: when it runs Python code again";
  }
  return "the GIL did not come; nothing was evaluated";
}

// As one step for the job: a fork between the two would leave the descriptor to the child, or
// have the child close a descriptor that is the job's by now.
void CloseOwn(ScopedFd& fd) {
  const NoForkNow hold;
  ForkClosed::Remove(fd.get());
  fd.Reset();
}

class Control {
 public:
  static std::unique_ptr<Control> Create(int wake_fd, wire::Listener listener) {
    return std::unique_ptr<Control>(new Control(wake_fd, std::move(listener)));
  }

  // Returns after `eject`. True: nothing of ours is left in use, the code may go.
  bool Serve();

 private:
  Control(int wake_fd, wire::Listener listener)
      : wake_fd_(wake_fd),
        listener_(std::move(listener)),
        evaluator_(wake_fd),
        settings_(wire::Holder::kProbe) {
    (void)settings_.LoadEnvironment();  // a bad value keeps the default; `config` shows which holds
    FollowForks(settings_.GetFlag("probing.nested"));
  }

  void Accept();
  void ReadFrom(Client& client);
  void WriteTo(Client& client);
  void Drop(Client& client);
  void Handle(Client& client, const Message& request);
  void Send(int client_fd, const Message& answer);

  Message Hello(std::uint32_t id) const;
  Message Status(std::uint32_t id) const;
  Message Configure(const Message& request);
  void QueueEvaluation(const Client& client, const Message& request);
  void StartNextEvaluation();
  int NextDeadlineMs() const;
  void StopEvaluation(std::string_view reason);
  void OnDeadlines();
  void OnEvaluationDone();
  void AnswerPending(Message answer);

  const int wake_fd_;
  wire::Listener listener_;
  std::vector<std::unique_ptr<Client>> clients_;
  pyapi::Evaluator evaluator_;
  std::optional<Pending> pending_;  // under way
  std::deque<Pending> queue_;       // behind it
  std::int64_t evaluations_ = 0;
  wire::Settings settings_;
  bool leaving_ = false;
  bool released_ = false;
};

bool Control::Serve() {
  while (!leaving_) {
    std::vector<pollfd> fds{{listener_.socket.get(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (const auto& client : clients_) {
      fds.push_back({client->socket.get(),
                     static_cast<short>(client->outgoing.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    if (poll(fds.data(), fds.size(), NextDeadlineMs()) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) OnEvaluationDone();
    OnDeadlines();
    for (std::size_t i = 2; i < fds.size(); ++i) {
      Client& client = *clients_[i - 2];
      if ((fds[i].revents & POLLOUT) != 0) WriteTo(client);
      if ((fds[i].revents & ~POLLOUT) != 0) ReadFrom(client);
    }
    std::erase_if(clients_, [](const auto& client) { return client->gone; });
    if (fds[0].revents != 0) Accept();
  }
  for (const auto& client : clients_) CloseOwn(client->socket);
  CloseOwn(listener_.socket);
  return released_;
}

void Control::Accept() {
  const NoForkNow hold;
  ScopedFd socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() || clients_.size() >= kMaxClients || !wire::PeerIsTrusted(socket.get())) return;
  ForkClosed::Add(socket.get());
  clients_.push_back(std::make_unique<Client>());
  clients_.back()->socket = std::move(socket);
}

void Control::ReadFrom(Client& client) {
  std::array<char, 16384> buffer;
  const ssize_t n = recv(client.socket.get(), buffer.data(), buffer.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return Drop(client);
  client.decoder.Append({buffer.data(), static_cast<std::size_t>(n)});
  while (!client.gone && !leaving_) {
    auto message = client.decoder.Next();
    if (!message.ok()) return Drop(client);
    if (!message->has_value()) return;
    Handle(client, **message);
  }
}

void Control::WriteTo(Client& client) {
  while (!client.outgoing.empty()) {
    const ssize_t n = send(client.socket.get(), client.outgoing.data(), client.outgoing.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return Drop(client);
    if (n < 0) return;
    client.outgoing.erase(0, static_cast<std::size_t>(n));
  }
}

void Control::Drop(Client& client) {
  if (client.gone) return;
  client.gone = true;
  std::erase_if(queue_, [&](const Pending& waiting) { return waiting.client_fd == client.socket.get(); });
  if (pending_.has_value() && pending_->client_fd == client.socket.get()) {
    pending_->client_fd = -1;
    StopEvaluation("cancelled");
  }
  CloseOwn(client.socket);
}

void Control::Send(int client_fd, const Message& answer) {
  for (const auto& client : clients_) {
    if (client->socket.get() != client_fd || client->gone) continue;
    client->outgoing += answer.Encode();
    WriteTo(*client);
  }
}

void Control::Handle(Client& client, const Message& request) {
  const std::string_view verb = request.Get("verb");
  const int fd = client.socket.get();
  if (verb == "hello") {
    // Under Yama only a named process may read this one's memory from outside.
    if (request.Get("ptracer") == "1") {
      if (auto peer = wire::PeerOf(fd); peer.ok()) prctl(PR_SET_PTRACER, peer->pid, 0, 0, 0);
    }
    return Send(fd, Hello(request.id()));
  }
  if (verb == "status") return Send(fd, Status(request.id()));
  if (verb == "config") return Send(fd, Configure(request));
  if (verb == "eval") return QueueEvaluation(client, request);
  if (verb == "interrupt") {  // one's own evaluation only
    if (pending_.has_value() && pending_->client_fd == fd) StopEvaluation("cancelled");
    return Send(fd, Message(request.id()));
  }
  if (verb == "eject") {
    leaving_ = true;
    queue_.clear();
    StopEvaluation("cancelled");
    released_ = evaluator_.Release(kReleaseMs);
    Message answer(request.id());
    if (!released_) {
      answer.Set("note", "the GIL could not be had, so the library stays mapped; it does nothing any more");
    } else if (ThisOrigin() != Origin::kInjected) {
      answer.Set("note",
                 "the library was loaded with the program and stays mapped; it does nothing any more");
    }
    return Send(fd, answer);
  }
  Send(fd,
       Message::Failure(request.id(), {Code::kUsage, "the probe knows no verb " + std::string(verb), ""}));
}

Message Control::Hello(std::uint32_t id) const {
  const pyapi::PythonApi* python = pyapi::FindPython();
  Message answer(id);
  answer.Set("version", PROBING_VERSION).Set("pid", static_cast<std::int64_t>(getpid()));
  answer.Set("python", python != nullptr ? python->Version() : "");
  answer.Set("how", OriginName(ThisOrigin())).Set("started_ns", StartedNs());
  return answer;
}

Message Control::Status(std::uint32_t id) const {
  Message answer = Hello(id);
  answer.Set("clients", static_cast<std::int64_t>(clients_.size()));
  answer.Set("evaluations", evaluations_);
  answer.Set("evaluating", evaluator_.busy() ? "yes" : "no");
  return answer;
}

Message Control::Configure(const Message& request) {
  constexpr std::string_view kSet = "set:";
  wire::Settings changed = settings_;  // all or nothing
  for (const auto& [key, value] : request.fields()) {
    if (!key.starts_with(kSet)) continue;
    if (auto set = changed.Set(std::string_view(key).substr(kSet.size()), value); !set.ok()) {
      return Message::Failure(request.id(), set.error());
    }
  }
  settings_ = std::move(changed);
  FollowForks(settings_.GetFlag("probing.nested"));
  Message answer(request.id());
  for (const auto& [setting, value] : settings_.all()) answer.Set(setting->name, value);
  return answer;
}

void Control::QueueEvaluation(const Client& client, const Message& request) {
  const auto default_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.timeout") * 1000);
  const std::int64_t timeout_ms = std::max<std::int64_t>(request.GetNumber("timeout_ms", default_ms), 1);
  queue_.push_back({client.socket.get(), request.id(), Deadline::AfterMs(timeout_ms),
                    std::string(request.Get("code")), ""});
  StartNextEvaluation();
}

void Control::StartNextEvaluation() {
  while (!queue_.empty() && !evaluator_.busy()) {
    pending_ = std::move(queue_.front());
    queue_.pop_front();
    const auto max_output = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.max_output"));
    auto started = evaluator_.Start(std::move(pending_->code), max_output);
    if (started.ok()) {
      ++evaluations_;
      return;
    }
    AnswerPending(Message::Failure(pending_->id, started.error()));
  }
}

int Control::NextDeadlineMs() const {
  int next_ms = pending_.has_value() ? pending_->deadline.left_ms() : -1;
  for (const Pending& waiting : queue_) {
    const int left_ms = waiting.deadline.left_ms();
    next_ms = next_ms < 0 ? left_ms : std::min(next_ms, left_ms);
  }
  return next_ms;
}

void Control::AnswerPending(Message answer) {
  if (pending_->client_fd >= 0) Send(pending_->client_fd, answer);
  pending_.reset();
}

void Control::StopEvaluation(std::string_view reason) {
  if (!pending_.has_value() || !pending_->reason.empty()) return;
  pending_->reason = reason;
  if (evaluator_.Abandon()) {
    Message answer(pending_->id);
    answer.Set("outcome", reason);
    answer.Set("note", NoGilNote());
    answer.Set("gil", "unavailable");
    return AnswerPending(std::move(answer));
  }
  evaluator_.Interrupt();
  pending_->deadline = Deadline::AfterMs(kInterruptGraceMs);
}

void Control::OnDeadlines() {
  std::erase_if(queue_, [&](const Pending& waiting) {
    if (!waiting.deadline.passed()) return false;
    Message answer(waiting.id);
    answer.Set("outcome", "timeout")
        .Set("note", "an earlier evaluation was still running; nothing was evaluated");
    Send(waiting.client_fd, answer);
    return true;
  });
  if (!pending_.has_value() || !pending_->deadline.passed()) return;
  if (pending_->reason.empty()) return StopEvaluation("timeout");
  Message answer(pending_->id);
  answer.Set("outcome", pending_->reason);
  answer.Set("note", "the code does not react; it is stopped when it comes back to Python code");
  AnswerPending(std::move(answer));
}

void Control::OnEvaluationDone() {
  std::uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
  std::optional<pyapi::Evaluation> done = evaluator_.Collect();
  if (!done.has_value()) return;
  if (!pending_.has_value()) return StartNextEvaluation();  // it was answered before it ended
  Message answer(pending_->id);
  const std::string_view reason = pending_->reason.empty() ? "cancelled" : pending_->reason;
  answer.Set("outcome", done->raised ? (done->interrupted ? reason : "raised") : "ok");
  answer.Set("stdout", done->out).Set("stderr", done->err);
  if (done->value.has_value()) answer.Set("value", *done->value);
  if (done->traceback.has_value()) answer.Set("traceback", *done->traceback);
  if (done->cut) answer.Set("note", "output was cut at probing.eval.max_output");
  answer.Set("gil_wait_us", done->gil_wait_us).Set("duration_us", done->duration_us);
  AnswerPending(std::move(answer));
  StartNextEvaluation();
}

}  // namespace
}  // namespace probing::probe

extern "C" void* probing_control_main(void* argument) {
  using namespace probing;
  using namespace probing::probe;
  const std::unique_ptr<ControlOptions> options(static_cast<ControlOptions*>(argument));
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
  std::unique_ptr<Control> control = Control::Create(wake.get(), std::move(*listener));
  if (control->Serve()) {
    control.reset();
    CloseOwn(wake);
    return Leave(Unload::kYes);
  }
  // A thread of ours may still be waiting for the GIL and will look at these when it comes.
  (void)control.release();
  (void)wake.Release();
  return Leave(Unload::kNo);
}
