#include <sys/prctl.h>
#include <unistd.h>

#include <utility>

#include "base/clock.h"
#include "console/debugger_lease.h"
#include "probe/control.h"
#include "probe/control_thread.h"
#include "probe/lifecycle.h"
#include "probe/recording.h"
#include "probing/probing.h"
#include "pyapi/functions.h"
#include "pyapi/python_api.h"
#include "record/overhead.h"
#include "record/recorder.h"
#include "torch/job_place.h"

namespace probing::probe {

using console::Work;
using wire::Message;

namespace {
constexpr std::int64_t kReleaseMs = 2000;
}  // namespace

void Control::Handle(Client& client, const Message& request) {
  const std::string_view verb = request.Get("verb");
  const int fd = client.fd();
  if (verb == "hello") {
    // Under Yama only a named process may read this one's memory from outside.
    if (request.Get("ptracer") == "1") {
      first_client_.OnDaemon();
      if (auto peer = wire::PeerOf(fd); peer.ok()) prctl(PR_SET_PTRACER, peer->pid, 0, 0, 0);
    }
    return Send(fd, Hello(request.id()));
  }
  if (verb == "status") return Send(fd, Status(request.id()));
  if (verb == "config") return Send(fd, Configure(request));
  if (verb == "client") return first_client_.OnClient(fd, request);
  if (verb == "wait") return first_client_.OnWait(fd, request);
  if (verb == "rings") return SendRings(client, request);
  if (verb == "eval") return Evaluate(client, request, EvaluationOf(request));
  if (verb == "debugger") {  // a debugger is there and looks; no GIL is needed for that
    console::DebuggerLease::Renew();
    return Send(fd, Message(request.id()).Set("stops", console::DebuggerLease::stops()));
  }
  if (verb == "collectives") return ReadCollectives(client, request);
  if (verb == "live" && request.Get("table") == "probing.overhead") return SendOverhead(client, request);
  if (verb == "live") {
    Work work{Work::Kind::kLive, std::string(request.Get("table"))};
    work.timeout_ms = request.GetNumber("timeout_ms", 0);
    for (const auto& [key, value] : request.fields()) {
      if (key == "column") work.columns.push_back(value);
    }
    return Evaluate(client, request, std::move(work));
  }
  if (verb == "interrupt") {
    evaluations_.Interrupt(fd, request.Get("session"));
    return Send(fd, Message(request.id()));
  }
  if (verb == "eject") return Send(fd, Leave(request.id()));
  Send(fd,
       Message::Failure(request.id(), {Code::kUsage, "the probe knows no verb " + std::string(verb), ""}));
}

void Control::Evaluate(const Client& client, const Message& request, Work work) {
  const auto default_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.timeout") * 1000);
  evaluations_.Add(client.fd(), request, default_ms, std::move(work));
}

// Takes everything of ours out of the job; Serve() returns then. What cannot be taken out now stays as it is,
// with its socket: somebody who comes finds it, and no second one beside it.
Message Control::Leave(std::uint32_t id) {
  using enum console::Evaluator::Left;
  first_client_.GiveUp("the probe was told to leave");  // also when it cannot leave at once
  // First the reader of collectives, which writes to the tables that Release() takes away.
  const bool reader_ended = flight_reader_.Finish(kReleaseMs);
  const console::Evaluator::Left left = reader_ended ? evaluations_.Release(kReleaseMs) : kWaiting;
  Message answer(id);
  if (left == kRunning) {
    const Message what = evaluations_.WithWhatRuns(Message(id));
    return Message::Failure(id, {Code::kFailed,
                                 "the probe stays in the process: an evaluation still runs in thread " +
                                     std::string(what.Get("running_tid")) + ", for " +
                                     std::to_string(what.GetNumber("running_ms", 0) / 1000) + " s",
                                 "it is in a call that does not return to Python; see `backtrace`, and eject "
                                 "again when it has"});
  }
  if (left == kWaiting) {
    leaves_soon_ = true;
    return answer.Set(
        "note", reader_ended ? "the GIL could not be had; the probe leaves by itself as soon as it comes"
                             : "torch still copies its records of collectives; the probe leaves by itself "
                               "as soon as that ends");
  }
  leaving_ = true;
  StopListening();
  end_ = left == kNothing ? End::kReleased : End::kFunctions;
  if (left == kFunction) {
    record::Recorder::Close(record::Recorder::Users::kInside);  // if it still is open
    // Without a GIL nothing tells when the last thread has left a function.
    const pyapi::PythonApi* python = pyapi::FindPython();
    const bool for_good = pyapi::NativeCodeHasTables() || (python != nullptr && !python->HasGil());
    answer.Set("note",
               std::string("the program has functions of Probing's in use, which do nothing any more; ") +
                   (for_good ? "the library stays mapped"
                             : "the library is unmapped when the last of them is gone"));
  } else if (ThisOrigin() != Origin::kInjected) {
    answer.Set("note", "the library was loaded with the program and stays mapped; it does nothing any more");
  }
  return answer;
}

// The GIL may have come since, or the reader of collectives ended.
void Control::LeaveIfPossible() {
  using enum console::Evaluator::Left;
  if (!flight_reader_.Finish(0)) return;
  const console::Evaluator::Left left = evaluations_.Release(0);
  if (left == kWaiting || left == kRunning) return;
  leaving_ = true;
  StopListening();
  end_ = left == kNothing ? End::kReleased : End::kFunctions;
  if (left == kFunction) record::Recorder::Close(record::Recorder::Users::kInside);
}

void Control::SendRings(const Client& client, const Message& request) {
  Result<int> file = record::Recorder::File();
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
  const record::Cost own{.calls = turns_, .total_ns = earlier_ns_ + ReadClockNs(CLOCK_THREAD_CPUTIME_ID)};
  const Result<std::string> rows = record::EncodeOverhead(columns, own, StartedNs());
  Send(client.fd(),
       rows.ok() ? Message(request.id()).Set("rows", *rows) : Message::Failure(request.id(), rows.error()));
}

// Brings python.collectives up to date; answered when the rows are there. Nothing of it needs the GIL.
void Control::ReadCollectives(const Client& client, const Message& request) {
  if (const Result<void> started = flight_reader_.Start(); !started.ok())
    return Send(client.fd(), Message::Failure(request.id(), started.error()));
  wait_for_collectives_.push_back({client.fd(), request.id()});
}

void Control::OnCollectivesRead() {
  if (!flight_reader_.Collect()) return;
  // A client that turns out to be gone changes the list.
  for (const Waiting& one : std::exchange(wait_for_collectives_, {})) Send(one.client_fd, Message(one.id));
}

Message Control::Hello(std::uint32_t id) const {
  const pyapi::PythonApi* python = pyapi::FindPython();
  Message answer(id);
  answer.Set("version", PROBING_VERSION).Set("pid", static_cast<std::int64_t>(getpid()));
  answer.Set("python", python != nullptr ? python->Version() : "");
  answer.Set("how", OriginName(ThisOrigin())).Set("started_ns", StartedNs());
  if (const std::optional<torch::JobPlace> place = torch::NotedJobPlace())
    answer.Set("rank", place->rank).Set("world_size", place->world_size).Set("roles", place->roles);
  if (first_client_.is_awaited()) answer.Set("waits", 1);
  // For code in this process that found us here; see python/probing/_library.py.
  answer.Set("python_entry", static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&probing_python)));
  return answer;
}

Message Control::Status(std::uint32_t id) const {
  Message answer = Hello(id);
  answer.Set("clients", static_cast<std::int64_t>(clients_.size()));
  answer.Set("evaluations", evaluations_.begun());
  answer.Set("evaluating", evaluations_.busy() ? "yes" : "no");
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
  record::Recorder::SetLimits(LimitsOf(settings_));
  FollowForks(settings_.GetFlag("probing.nested"));
  if (any) upkeep_.LookSoon();
  Message answer(request.id());
  for (const auto& [setting, value] : settings_.all()) answer.Set(setting->name, value);
  return answer;
}

// What the request says beyond the code is for evaluate.py.
Work Control::EvaluationOf(const Message& request) const {
  const auto max_output = static_cast<std::int64_t>(settings_.GetNumber("probing.eval.max_output"));
  Work work{Work::Kind::kEvaluate, std::string(request.Get("code"))};
  work.max_output_bytes = max_output;
  for (const auto& [key, value] : request.fields()) {
    if (key == "verb" || key == "code" || key.ends_with("timeout_ms")) continue;
    if (!work.options.empty()) work.options += '\0';
    work.options += key;
    work.options += '\0';
    work.options += value;
  }
  if (request.Get("op") == "line" || !request.Get("at").empty()) {
    work.options += std::string("\0step_hold\0", 11) + std::string(settings_.Get("probing.eval.step_hold"));
  }
  if (request.Get("op") == "debug") {
    work.options += std::string("\0max_pause\0", 11) + std::string(settings_.Get("probing.debug.max_pause"));
  }
  return work;
}

}  // namespace probing::probe
