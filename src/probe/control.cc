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
#include "probe/client.h"
#include "probe/lifecycle.h"
#include "probe/recording.h"
#include "probe/start_daemon.h"
#include "probing/probing.h"
#include "pyapi/debugger_lease.h"
#include "pyapi/evaluator.h"
#include "pyapi/events.h"
#include "pyapi/hooks.h"
#include "pyapi/overhead.h"
#include "pyapi/recorder.h"
#include "wire/message.h"
#include "wire/rendezvous.h"
#include "wire/settings.h"

namespace probing::probe {
namespace {

using pyapi::Work;
using wire::Message;

constexpr std::size_t kMaxClients = 48;
constexpr std::int64_t kInterruptGraceMs = 300;  // for KeyboardInterrupt to do its work
constexpr std::int64_t kReleaseMs = 2000;
constexpr std::int64_t kForkDelayUs = 50'000;
constexpr std::int64_t kFirstLookMs = 25;  // when we came uninvited; else kSoonMs
constexpr std::int64_t kSoonMs = 10;
constexpr std::int64_t kLookEveryMs = 500;
constexpr std::int64_t kSeldomMs = 60'000;

// An evaluation somebody waits for: the one under way, or one behind it.
struct Pending {
  int client_fd = -1;  // −1: nobody any more
  std::uint32_t id = 0;
  Deadline deadline = Deadline::AfterMs(0);
  pyapi::Work work;
  std::string_view reason;                    // "timeout" or "cancelled" once it was told to stop
  std::string session;                        // whose evaluation it is; "" for a single one
  std::int64_t gil_timeout_ms = 0;            // how long it may wait for the GIL alone; 0: no limit
  std::optional<Deadline> gil_deadline = {};  // that, once it is under way
};

std::string_view NoGilNote() {
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->VersionNumber() < 307) {
    return "the GIL did not come; nothing was evaluated. Python 3.6 has none before its first thread, and "
           "only its main thread can make it: when it runs Python code again";
  }
  return "the GIL did not come; nothing was evaluated";
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
    const std::vector<Error> errors = settings_.LoadEnvironment();  // a bad value keeps the default
    FollowForks(settings_.GetFlag("probing.nested"));
    (void)pyapi::Recorder::Open(LimitsOf(settings_));
    for (const Error& error : errors) pyapi::WriteEvent("probing.config", error.message + "; " + error.hint);
  }

  void Accept();
  void ReadFrom(Client& client);
  void Drop(Client& client);
  void Handle(Client& client, const Message& request);
  void Send(int client_fd, const Message& answer, int attached = -1);

  Message Hello(std::uint32_t id) const;
  Message Status(std::uint32_t id) const;
  Message Configure(const Message& request);
  void SendRings(const Client& client, const Message& request);
  Work EvaluationOf(const Message& request) const;
  void Interrupt(const Client& client, const Message& request);
  void QueueEvaluation(const Client& client, const Message& request, pyapi::Work work);
  void StartNextEvaluation();
  void LookAfterHooks();
  void LookAfterMemory();
  void SendOverhead(const Client& client, const Message& request);
  Message Leave(std::uint32_t id);
  int NextDeadlineMs() const;
  bool GiveUpWaiting(std::string_view reason);
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
  std::int64_t turns_ = 0;  // of Serve()
  wire::Settings settings_;
  std::int64_t look_every_ms_ = ThisOrigin() == Origin::kInjected ? kFirstLookMs : kSoonMs;
  Deadline look_after_hooks_ = Deadline::AfterMs(look_every_ms_);
  std::optional<Deadline> next_memory_;  // nothing while there are no hooks
  bool leaving_ = false;
  bool released_ = false;
};

bool Control::Serve() {
  while (!leaving_) {
    std::vector<pollfd> fds{{listener_.socket.get(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (const auto& client : clients_) {
      fds.push_back(
          {client->fd(), static_cast<short>(client->has_outgoing() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (poll(fds.data(), fds.size(), NextDeadlineMs()) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) OnEvaluationDone();
    OnDeadlines();
    for (std::size_t i = 2; i < fds.size(); ++i) {
      Client& client = *clients_[i - 2];
      if ((fds[i].revents & POLLOUT) != 0 && !client.Flush()) Drop(client);
      if ((fds[i].revents & ~POLLOUT) != 0) ReadFrom(client);
    }
    std::erase_if(clients_, [](const auto& client) { return client->gone(); });
    if (fds[0].revents != 0) Accept();
    LookAfterHooks();
    LookAfterMemory();
    ++turns_;
  }
  for (const auto& client : clients_) client->Close();
  CloseOwn(listener_.socket);
  return released_;
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
  std::erase_if(queue_, [&](const Pending& waiting) { return waiting.client_fd == client.fd(); });
  if (pending_.has_value() && pending_->client_fd == client.fd()) {
    pending_->client_fd = -1;
    StopEvaluation("cancelled");
  }
  client.Close();
}

void Control::Send(int client_fd, const Message& answer, int attached) {
  for (const auto& client : clients_) {
    if (client->gone() || client->fd() != client_fd) continue;
    if (!client->Send(answer.Encode(), attached)) Drop(*client);
    return;
  }
}

void Control::Handle(Client& client, const Message& request) {
  const std::string_view verb = request.Get("verb");
  const int fd = client.fd();
  if (verb == "hello") {
    // Under Yama only a named process may read this one's memory from outside.
    if (request.Get("ptracer") == "1") {
      if (auto peer = wire::PeerOf(fd); peer.ok()) prctl(PR_SET_PTRACER, peer->pid, 0, 0, 0);
    }
    return Send(fd, Hello(request.id()));
  }
  if (verb == "status") return Send(fd, Status(request.id()));
  if (verb == "config") return Send(fd, Configure(request));
  if (verb == "rings") return SendRings(client, request);
  if (verb == "eval") return QueueEvaluation(client, request, EvaluationOf(request));
  if (verb == "debugger") {  // a debugger is there and looks; no GIL is needed for that
    pyapi::DebuggerLease::Renew();
    return Send(fd, Message(request.id()).Set("stops", pyapi::DebuggerLease::stops()));
  }
  if (verb == "live" && request.Get("table") == "probing.overhead") return SendOverhead(client, request);
  if (verb == "live") {
    Work work{Work::Kind::kLive, std::string(request.Get("table"))};
    for (const auto& [key, value] : request.fields()) {
      if (key == "column") work.columns.push_back(value);
    }
    return QueueEvaluation(client, request, std::move(work));
  }
  if (verb == "interrupt") {
    Interrupt(client, request);
    return Send(fd, Message(request.id()));
  }
  if (verb == "eject") return Send(fd, Leave(request.id()));
  Send(fd,
       Message::Failure(request.id(), {Code::kUsage, "the probe knows no verb " + std::string(verb), ""}));
}

// Takes everything of ours out of the job; Serve() returns then.
Message Control::Leave(std::uint32_t id) {
  using enum pyapi::Evaluator::Left;
  leaving_ = true;
  queue_.clear();
  StopEvaluation("cancelled");
  const pyapi::Evaluator::Left left = evaluator_.Release(kReleaseMs);
  released_ = left == kNothing;
  if (left != kNothing) pyapi::Recorder::Close(pyapi::Recorder::Users::kInside);  // if it still is open
  Message answer(id);
  if (left == kThread) {
    answer.Set("note", "the GIL could not be had, so the library stays mapped; it does nothing any more");
  } else if (left == kFunction) {
    answer.Set(
        "note",
        "the program has kept functions of Probing's, so the library stays mapped; they do nothing any more");
  } else if (ThisOrigin() != Origin::kInjected) {
    answer.Set("note", "the library was loaded with the program and stays mapped; it does nothing any more");
  }
  return answer;
}

void Control::SendRings(const Client& client, const Message& request) {
  Result<int> file = pyapi::Recorder::File();
  if (!file.ok()) return Send(client.fd(), Message::Failure(request.id(), file.error()));
  Message answer(request.id());
  answer.Set("pid", static_cast<std::int64_t>(getpid()));
  Send(client.fd(), answer, *file);
}

// Answered here: what the probe costs must be seen also when the GIL is held.
void Control::SendOverhead(const Client& client, const Message& request) {
  std::vector<std::string> columns;
  for (const auto& [key, value] : request.fields()) {
    if (key == "column") columns.push_back(value);
  }
  const pyapi::Cost own{.calls = turns_, .total_ns = ReadClockNs(CLOCK_THREAD_CPUTIME_ID)};
  const Result<std::string> rows = pyapi::EncodeOverhead(columns, own, StartedNs());
  Send(client.fd(),
       rows.ok() ? Message(request.id()).Set("rows", *rows) : Message::Failure(request.id(), rows.error()));
}

Message Control::Hello(std::uint32_t id) const {
  const pyapi::PythonApi* python = pyapi::FindPython();
  Message answer(id);
  answer.Set("version", PROBING_VERSION).Set("pid", static_cast<std::int64_t>(getpid()));
  answer.Set("python", python != nullptr ? python->Version() : "");
  answer.Set("how", OriginName(ThisOrigin())).Set("started_ns", StartedNs());
  // For code in this process that found us here; see python/probing/_library.py.
  answer.Set("python_entry", static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&probing_python)));
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
  bool any = false;
  for (const auto& [key, value] : request.fields()) {
    if (!key.starts_with(kSet)) continue;
    if (auto set = changed.Set(std::string_view(key).substr(kSet.size()), value); !set.ok()) {
      return Message::Failure(request.id(), set.error());
    }
    any = true;
  }
  settings_ = std::move(changed);
  pyapi::Recorder::SetLimits(LimitsOf(settings_));
  FollowForks(settings_.GetFlag("probing.nested"));
  if (any) {  // now, and not when it would have been time
    next_memory_.reset();
    if (!pyapi::Hooks::Run(HooksOf(settings_))) look_after_hooks_ = Deadline::AfterMs(0);
  }
  Message answer(request.id());
  for (const auto& [setting, value] : settings_.all()) answer.Set(setting->name, value);
  return answer;
}

// What the request says beyond the code is for evaluate.py.
Work Control::EvaluationOf(const Message& request) const {
  const auto max_output = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.max_output"));
  Work work{Work::Kind::kEvaluate, std::string(request.Get("code")), {}, max_output, ""};
  for (const auto& [key, value] : request.fields()) {
    if (key == "verb" || key == "code" || key.ends_with("timeout_ms")) continue;
    if (!work.options.empty()) work.options += '\0';
    work.options += key;
    work.options += '\0';
    work.options += value;
  }
  if (request.Get("op") == "debug") {
    work.options += std::string("\0max_pause\0", 11) + std::string(settings_.Get("probing.debug.max_pause"));
  }
  return work;
}

// One's own evaluation: of this connection, or of the session that is named. What has not begun is
// answered at once and does not begin.
void Control::Interrupt(const Client& client, const Message& request) {
  const std::string_view session = request.Get("session");
  const auto ours = [&](const Pending& one) {
    return one.client_fd == client.fd() || (!session.empty() && one.session == session);
  };
  std::erase_if(queue_, [&](const Pending& waiting) {
    if (!ours(waiting)) return false;
    Send(waiting.client_fd, Message(waiting.id)
                                .Set("outcome", "cancelled")
                                .Set("note", "another evaluation was still running; nothing was evaluated"));
    return true;
  });
  if (pending_.has_value() && ours(*pending_)) StopEvaluation("cancelled");
}

void Control::QueueEvaluation(const Client& client, const Message& request, Work work) {
  const auto default_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.timeout") * 1000);
  const std::int64_t timeout_ms = std::max<std::int64_t>(request.GetNumber("timeout_ms", default_ms), 1);
  queue_.push_back({client.fd(), request.id(), Deadline::AfterMs(timeout_ms), std::move(work), "",
                    std::string(request.Get("session")), request.GetNumber("gil_timeout_ms", 0)});
  StartNextEvaluation();
}

void Control::StartNextEvaluation() {
  while (!queue_.empty() && !pending_.has_value()) {
    // Our own work, which nobody waits for, makes room while it has not begun.
    if (evaluator_.busy() && !evaluator_.TakeOver(queue_.front().work)) return;
    const bool taken_over = evaluator_.busy();
    pending_ = std::move(queue_.front());
    queue_.pop_front();
    auto started = taken_over ? Result<void>() : evaluator_.Start(std::move(pending_->work));
    if (started.ok()) {
      if (pending_->gil_timeout_ms > 0) pending_->gil_deadline = Deadline::AfterMs(pending_->gil_timeout_ms);
      evaluations_ += pending_->work.kind == Work::Kind::kEvaluate ? 1 : 0;
      return;
    }
    AnswerPending(Message::Failure(pending_->id, started.error()));
  }
}

// Puts the hooks in place once there is a Python, and has them look at what was imported since. Does
// nothing and costs next to nothing while nothing has changed. After an injection the first look comes
// a little later than we do: a short visit leaves the interpreter alone.
void Control::LookAfterHooks() {
  if (leaving_ || !look_after_hooks_.passed()) return;
  const pyapi::PythonApi* python = pyapi::FindPython();
  const bool usable = python != nullptr && python->Usable();
  // Looking for a Python is dear. One that is not there yet is about to come, or never will.
  look_every_ms_ = usable ? kLookEveryMs : std::min(2 * look_every_ms_, kSeldomMs);
  look_after_hooks_ = Deadline::AfterMs(look_every_ms_);
  if (!usable || evaluator_.busy()) return;
  const std::string wanted = HooksOf(settings_);
  if (pyapi::Hooks::Run(wanted) && !pyapi::Hooks::ModulesChanged(*python)) return;
  (void)evaluator_.Start({Work::Kind::kHooks, wanted});
}

// Adds a row to python.memory now and then. It waits for the hooks, whose setting names it.
void Control::LookAfterMemory() {
  const std::string_view wanted = settings_.Get("probing.python.hooks");
  if (leaving_ || wanted.find("memory") == std::string_view::npos || !pyapi::Hooks::Run(HooksOf(settings_))) {
    next_memory_.reset();
    return;
  }
  const auto interval_ms =
      static_cast<std::int64_t>(settings_.GetNumber("probing.python.memory_interval") * 1000);
  if (!next_memory_) next_memory_ = Deadline::AfterMs(0);
  if (!next_memory_->passed() || evaluator_.busy()) return;
  next_memory_ = Deadline::AfterMs(interval_ms);
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->Usable()) (void)evaluator_.Start({Work::Kind::kMemory});
}

int Control::NextDeadlineMs() const {
  int next_ms = look_after_hooks_.left_ms();
  // While work is under way its end wakes us.
  if (next_memory_ && !evaluator_.busy()) next_ms = std::min(next_ms, next_memory_->left_ms());
  if (pending_.has_value()) {
    next_ms = std::min(next_ms, pending_->deadline.left_ms());
    if (pending_->gil_deadline.has_value()) next_ms = std::min(next_ms, pending_->gil_deadline->left_ms());
  }
  for (const Pending& waiting : queue_) next_ms = std::min(next_ms, waiting.deadline.left_ms());
  return next_ms;
}

void Control::AnswerPending(Message answer) {
  if (pending_->client_fd >= 0) Send(pending_->client_fd, answer);
  pending_.reset();
}

// Nothing happens when the evaluation has begun: false.
bool Control::GiveUpWaiting(std::string_view reason) {
  if (!evaluator_.Abandon()) return false;
  AnswerPending(
      Message(pending_->id).Set("outcome", reason).Set("note", NoGilNote()).Set("gil", "unavailable"));
  return true;
}

void Control::StopEvaluation(std::string_view reason) {
  if (!pending_.has_value() || !pending_->reason.empty()) return;
  pending_->reason = reason;
  if (GiveUpWaiting(reason)) return;
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
  if (pending_.has_value() && pending_->gil_deadline.has_value() && pending_->gil_deadline->passed()) {
    pending_->gil_deadline.reset();
    if (GiveUpWaiting("timeout")) return;
  }
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
  // Our own, or one that was answered before it ended.
  const bool is_own = done->kind == Work::Kind::kHooks || done->kind == Work::Kind::kMemory;
  if (is_own || !pending_.has_value()) return StartNextEvaluation();
  if (done->kind == Work::Kind::kLive) {
    AnswerPending(done->rows.ok() ? Message(pending_->id).Set("rows", *done->rows)
                                  : Message::Failure(pending_->id, done->rows.error()));
    return StartNextEvaluation();
  }
  Message answer(pending_->id);
  const std::string_view reason = pending_->reason.empty() ? "cancelled" : pending_->reason;
  answer.Set("outcome", done->raised ? (done->interrupted ? reason : "raised") : "ok");
  answer.Set("stdout", done->out).Set("stderr", done->err);
  if (done->value.has_value()) answer.Set("value", *done->value);
  if (done->traceback.has_value()) answer.Set("traceback", *done->traceback);
  if (!done->exception.empty()) answer.Set("exception", done->exception);
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
  if (ThisOrigin() != Origin::kInjected) StartDaemonIfAsked(LibraryPath());
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
