#include "inject/inject.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/installation.h"
#include "cli/output.h"
#include "inject/entry_lock.h"
#include "process/maps.h"
#include "process/status.h"
#include "wire/contract.h"
#include "wire/message.h"
#include "wire/rendezvous.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kHelloTimeoutMs = 2000;
constexpr std::size_t kCommandBytes = 60;

// What the probe in a process says about itself.
Result<wire::Message> Greet(pid_t pid) {
  ASSIGN_OR_RETURN(const ScopedFd fd, wire::ConnectToProbe(pid));
  ASSIGN_OR_RETURN(wire::Message hello,
                   wire::Call(fd.get(), wire::Message::Request(1, "hello"), kHelloTimeoutMs));
  if (std::optional<Error> failure = hello.failure()) return std::move(*failure);
  return hello;
}

// The probe's thread starts to listen soon after its library is loaded.
Result<wire::Message> AwaitProbe(pid_t pid, const Deadline& deadline) {
  while (true) {
    Result<wire::Message> hello = Greet(pid);
    if (hello.ok()) return hello;
    if (!process::IsAlive(pid)) return process::EndedMeanwhile(pid);
    if (deadline.passed()) {
      return Error{Code::kTimeout,
                   "the library is loaded in process " + std::to_string(pid) +
                       " but its probe does not answer: " + hello.error().message,
                   "is PROBING_DISABLE set there, or none of /tmp, /dev/shm and /var/tmp writable?"};
    }
    SleepUs(100);
  }
}

// A library of somebody else's starts no probe that could be waited for.
bool IsProbe(const std::string& library_path) {
  const Result<std::string> content = ReadFile(library_path);
  return content.ok() && content->find("probing_active") != std::string::npos;
}

Result<std::string> LibraryOf(const Invocation& invocation) {
  if (!invocation.Has("--dll")) return FindLibrary();
  const std::string path = invocation.Get("--dll");
  const std::unique_ptr<char, decltype(&free)> absolute(realpath(path.c_str(), nullptr), &free);
  if (absolute == nullptr) {
    Error error = ErrnoError("cannot use the library " + path);
    error.code = Code::kUsage;
    return error;
  }
  return std::string(absolute.get());
}

Error CannotAttach(pid_t pid, Error error) {
  error.message = "cannot attach to " + std::to_string(pid) + ": " + error.message;
  return error;
}

std::string Milliseconds(std::int64_t us, int digits) {
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), "%.*f ms", digits, static_cast<double>(us) / 1000);
  return text.data();
}

// "1234 (python train.py, Python 3.12.1)", of a report.
std::string Describe(const Json& report) {
  std::string text =
      std::to_string(report.value("pid", 0)) + " (" + OneLine(report.value("command", ""), kCommandBytes);
  if (const std::string python = report.value("python", ""); !python.empty()) text += ", Python " + python;
  return text + ")";
}

void PrintReport(const Invocation& invocation, const Json& report) {
  if (invocation.Has("--json")) {
    Print(FormatJson(report));
    return;
  }
  const std::string version = report.value("version", "");
  if (report.value("already", false)) {
    Print("process " + Describe(report) + " is probed already, version " + version + "\n");
  } else {
    Print("injected " + std::string(process::BaseName(report.value("library", ""))) +
          (version.empty() ? "" : " " + version) + " into " + Describe(report) + " in " +
          Milliseconds(report.value("total_us", 0), 1) + ", thread " +
          std::to_string(report.value("held_thread", 0)) + " held for " +
          Milliseconds(report.value("held_us", 0), 2) + "\n");
  }
  if (const std::string link = report.value("link", ""); !link.empty()) Print("served at " + link + "\n");
}

Result<std::string> Serve(const Invocation& invocation) {
  if (!invocation.Has("--listen")) return std::string();
  ASSIGN_OR_RETURN(const Json served,
                   PostToDaemon(std::string(wire::kListenRoute), {{"address", invocation.Get("--listen")}}));
  return served.value("link", "");
}

// It answers already: fine if it is what would have been put there.
Result<int> ReportPresent(const Invocation& invocation, const wire::Message& hello) {
  const std::string version(hello.Get("version"));
  const std::string pid = std::to_string(*invocation.target);
  if (version != PROBING_VERSION) {
    return Error{Code::kFailed,
                 "process " + pid + " has a probe of version " + version + ", this is " PROBING_VERSION,
                 "`probing -t " + pid + " eject` removes it"};
  }
  ASSIGN_OR_RETURN(const std::string link, Serve(invocation));
  PrintReport(invocation, {{"pid", *invocation.target},
                           {"version", version},
                           {"command", process::CommandLine(*invocation.target)},
                           {"python", hello.Get("python")},
                           {"already", true},
                           {"link", link}});
  return 0;
}

// The probingd of that machine does it, with what is installed there.
Result<int> RunElsewhere(const Invocation& invocation) {
  for (const char* option : {"--dll", "--listen"}) {
    if (invocation.Has(option)) {
      return Error{Code::kUsage, std::string(option) + " is for processes of this machine",
                   "run `probing inject` there"};
    }
  }
  ASSIGN_OR_RETURN(const double timeout_s, invocation.GetNumber("--timeout", 5));
  ASSIGN_OR_RETURN(const Json report, PostToDaemon(std::string(wire::kInjectRoute),
                                                   {{"target", *invocation.target}, {"timeout", timeout_s}},
                                                   Patience::kEndless));
  PrintReport(invocation, report);
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.endpoint) return RunElsewhere(invocation);
  const std::int64_t started_ns = MonotonicNs();
  const pid_t pid = *invocation.target;
  ASSIGN_OR_RETURN(const double timeout_s, invocation.GetNumber("--timeout", 5));
  ASSIGN_OR_RETURN(const std::string library, LibraryOf(invocation));
  const bool is_probe = !invocation.Has("--dll") || IsProbe(library);
  const auto timeout_ms = static_cast<std::int64_t>(timeout_s * 1000);
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  // Until the probe answers: of several commands at once, one enters and the others find it there.
  ASSIGN_OR_RETURN(const inject::EntryLock lock, inject::EntryLock::Acquire(pid, deadline));
  if (is_probe) {
    if (const Result<wire::Message> present = Greet(pid); present.ok())
      return ReportPresent(invocation, *present);
  }
  if (Result<void> possible = inject::Preflight(pid); !possible.ok())
    return CannotAttach(pid, possible.error());
  Result<inject::Report> report = inject::Inject(
      {.pid = pid, .library_path = library, .timeout_ms = timeout_ms, .rehearse = invocation.Has("--dll")});
  if (!report.ok()) return CannotAttach(pid, report.error());

  wire::Message hello;
  if (is_probe) {
    ASSIGN_OR_RETURN(hello, AwaitProbe(pid, deadline));
  }
  const std::int64_t total_us = (MonotonicNs() - started_ns) / 1000;
  // Not waited for, and its absence spoils nothing: the next command will try again.
  if (is_probe) (void)StartDaemon();

  std::string link;
  if (is_probe) {
    ASSIGN_OR_RETURN(link, Serve(invocation));
  }
  PrintReport(invocation, {{"pid", pid},
                           {"library", library},
                           {"version", hello.Get("version")},
                           {"command", process::CommandLine(pid)},
                           {"python", hello.Get("python")},
                           {"total_us", total_us},
                           {"held_thread", report->held_thread},
                           {"held_us", report->held_us},
                           {"attempts", report->attempts},
                           {"link", link}});
  return 0;
}

}  // namespace

Command InjectCommand() {
  return {.name = "inject",
          .summary = "Put the probe into a running process",
          .example = "probing -t 1234 inject",
          .target = TargetUse::kRequired,
          .options = {{"--dll", "PATH", "the library to load (default: the probe)"},
                      {"--listen", "ADDRESS", "serve it there: the web page, HTTP and text for nc"},
                      {"--timeout", "SECONDS", "give up after this long (default: 5)"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
