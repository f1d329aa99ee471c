#include "inject/inject.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/each_host.h"
#include "cli/installation.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cpython/interpreter.h"
#include "inject/entry_lock.h"
#include "process/job_identity.h"
#include "process/maps.h"
#include "process/status.h"
#include "wire/contract.h"
#include "wire/message.h"
#include "wire/node_list.h"
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

std::string ToText(const Json& report) {
  const std::string version = report.value("version", "");
  if (report.value("already", false))
    return "process " + Describe(report) + " is probed already, version " + version + "\n";
  return "injected " + std::string(process::BaseName(report.value("library", ""))) +
         (version.empty() ? "" : " " + version) + " into " + Describe(report) + " in " +
         Milliseconds(report.value("total_us", 0), 1) + ", thread " +
         std::to_string(report.value("held_thread", 0)) + " held for " +
         Milliseconds(report.value("held_us", 0), 2) + "\n";
}

void PrintReport(const Invocation& invocation, const Json& report) {
  if (invocation.Has("--json")) {
    Print(FormatJson(report));
    return;
  }
  Print(ToText(report));
  if (const std::string link = report.value("link", ""); !link.empty()) Print("served at " + link + "\n");
}

Result<std::string> Serve(const Invocation& invocation) {
  if (!invocation.Has("--listen")) return std::string();
  ASSIGN_OR_RETURN(const Json served,
                   PostToDaemon(std::string(wire::kListenRoute), {{"address", invocation.Get("--listen")}}));
  return served.value("link", "");
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

struct Options {
  std::string library;
  bool is_default = true;
  bool is_probe = true;  // or a library of somebody else's
  bool needs_python = true;
  std::int64_t timeout_ms = 0;
};

// Whether an interpreter is there, by whatever name: most are found by the names of files.
bool HasPython(pid_t pid) { return process::RunsPython(pid) || cpython::Interpreter::Attach(pid).ok(); }

// Enters one process, or finds it entered already.
Result<Json> Enter(pid_t pid, const Options& options) {
  const std::int64_t started_ns = MonotonicNs();
  const Deadline deadline = Deadline::AfterMs(options.timeout_ms);
  // Until the probe answers: of several commands at once, one enters and the others find it there.
  ASSIGN_OR_RETURN(const inject::EntryLock lock, inject::EntryLock::Acquire(pid, deadline));
  Json report{{"pid", pid}};
  if (options.is_probe) {
    if (const Result<wire::Message> present = Greet(pid); present.ok()) {
      const std::string version(present->Get("version"));
      if (version != PROBING_VERSION) {
        return Error{Code::kFailed,
                     "process " + std::to_string(pid) + " has a probe of version " + version +
                         ", this is " PROBING_VERSION,
                     "`probing -t " + std::to_string(pid) + " eject` removes it"};
      }
      report.update({{"version", version},
                     {"command", process::CommandLine(pid)},
                     {"python", present->Get("python")},
                     {"already", true}});
      return report;
    }
  }
  if (Result<void> possible = inject::Preflight(pid); !possible.ok())
    return CannotAttach(pid, possible.error());
  if (options.needs_python && !HasPython(pid)) {
    return CannotAttach(pid, {Code::kFailed, process::ShortCommandLine(pid) + " has no Python in it",
                              "`probing ps` lists the Python processes; --no-python attaches anyway, for "
                              "programs that load Python later or use the C interface"});
  }
  Result<inject::Report> entered = inject::Inject({.pid = pid,
                                                   .library_path = options.library,
                                                   .timeout_ms = options.timeout_ms,
                                                   .rehearse = !options.is_default});
  if (!entered.ok()) return CannotAttach(pid, entered.error());
  wire::Message hello;
  if (options.is_probe) {
    ASSIGN_OR_RETURN(hello, AwaitProbe(pid, deadline));
  }
  report.update({{"library", options.library},
                 {"version", hello.Get("version")},
                 {"command", process::CommandLine(pid)},
                 {"python", hello.Get("python")},
                 {"total_us", (MonotonicNs() - started_ns) / 1000},
                 {"held_thread", entered->held_thread},
                 {"held_us", entered->held_us},
                 {"attempts", entered->attempts}});
  return report;
}

Result<int> EnterOne(const Invocation& invocation, const Options& options) {
  ASSIGN_OR_RETURN(Json report, Enter(*invocation.target, options));
  // Not waited for, and its absence spoils nothing: the next command will try again.
  if (options.is_probe) (void)StartDaemon();
  std::string link;
  if (options.is_probe) {
    ASSIGN_OR_RETURN(link, Serve(invocation));
  }
  report["link"] = link;
  PrintReport(invocation, report);
  return 0;
}

// One after the other, some ten milliseconds each: not worth threads.
Result<int> EnterJob(const Invocation& invocation, const Options& options) {
  ASSIGN_OR_RETURN(const std::vector<process::RankProcess> ranks, RanksOfJob(*invocation.job));
  std::vector<std::optional<Result<Json>>> reports(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) reports[i].emplace(Enter(ranks[i].pid, options));
  if (options.is_probe) (void)StartDaemon();
  Json list = Json::array();
  std::string text;
  std::optional<Error> failure;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Result<Json>& report = *reports[i];
    Json entry = report.ok() ? *report : Json{{"pid", ranks[i].pid}, {"error", report.error().message}};
    entry["rank"] = *ranks[i].identity.rank;
    if (report.ok()) {
      text += "rank " + std::to_string(*ranks[i].identity.rank) + ": " + ToText(*report);
    } else {
      ++failed;
      if (!failure) failure = report.error();
      if (!invocation.Has("--json")) PrintError(report.error());
    }
    list.push_back(std::move(entry));
  }
  ASSIGN_OR_RETURN(const std::string link, Serve(invocation));
  if (!link.empty()) text += "served at " + link + "\n";
  Print(invocation.Has("--json") ? FormatJson(list) : text);
  if (!failure) return 0;
  return static_cast<int>(failed == ranks.size() ? failure->code : Code::kPartial);
}

Result<std::vector<std::string>> HostsOf(const Invocation& invocation) {
  if (!invocation.job)
    return Error{Code::kUsage, "--hosts and --hostfile are for a job",
                 "say `probing inject --job --hosts …`"};
  for (const char* option : {"--dll", "--listen"}) {
    if (invocation.Has(option))
      return Error{Code::kUsage, std::string(option) + " is for processes of this machine",
                   "run `probing inject` there"};
  }
  if (invocation.Has("--hostfile")) return ReadHostFile(invocation.Get("--hostfile"));
  return wire::ParseHosts(invocation.Get("--hosts"));
}

// `probing inject --job` on each of them, with what is installed there.
Result<int> EnterHosts(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, HostsOf(invocation));
  ASSIGN_OR_RETURN(const double timeout_s, invocation.GetNumber("--timeout", 30));
  const char* ssh = getenv("PROBING_SSH");
  std::vector<std::string> words{"probing", "inject", "--job"};
  if (!invocation.job->empty()) words = {"probing", "-t", "job:" + *invocation.job, "inject"};
  if (invocation.Has("--json")) words.emplace_back("--json");
  const std::vector<HostOutcome> outcomes =
      OnEachHost(hosts, ssh == nullptr ? "ssh" : ssh, words,
                 Deadline::AfterMs(static_cast<std::int64_t>(timeout_s * 1000)));
  Json list = Json::array();
  std::size_t failed = 0;
  for (const HostOutcome& outcome : outcomes) {
    if (!outcome.ok()) ++failed;
    if (invocation.Has("--json")) {
      const Json ranks = Json::parse(outcome.out, nullptr, false);
      Json entry{{"host", outcome.host}, {"ranks", ranks.is_array() ? ranks : Json::array()}};
      if (!outcome.ok()) entry["error"] = outcome.Problem();
      list.push_back(std::move(entry));
      continue;
    }
    for (std::string_view rest = outcome.out; !rest.empty();)
      Print(outcome.host + ": " + std::string(TakePart(rest, '\n')) + "\n");
    if (!outcome.ok()) PrintAside("probing: " + outcome.host + ": " + outcome.Problem() + "\n");
  }
  if (invocation.Has("--json")) Print(FormatJson(list));
  if (failed == 0) return 0;
  if (!invocation.Has("--json"))
    PrintAside("probing: " + std::to_string(failed) + " of " + std::to_string(hosts.size()) +
               " hosts failed\n");
  return static_cast<int>(Code::kPartial);
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.Has("--hosts") || invocation.Has("--hostfile")) return EnterHosts(invocation);
  if (invocation.endpoint) return RunElsewhere(invocation);
  ASSIGN_OR_RETURN(const double timeout_s, invocation.GetNumber("--timeout", 5));
  Options options;
  ASSIGN_OR_RETURN(options.library, LibraryOf(invocation));
  options.is_default = !invocation.Has("--dll");
  options.is_probe = options.is_default || IsProbe(options.library);
  options.needs_python = options.is_probe && !invocation.Has("--no-python");
  options.timeout_ms = static_cast<std::int64_t>(timeout_s * 1000);
  if (invocation.job) return EnterJob(invocation, options);
  Result<int> entered = EnterOne(invocation, options);
  if (!entered.ok() && invocation.Has("--json")) {  // for programs; main says it on stderr
    const Error& error = entered.error();
    Print(FormatJson(
        {{"error",
          {{"code", wire::CodeName(error.code)}, {"message", error.message}, {"hint", error.hint}}}}));
  }
  return entered;
}

}  // namespace

Command InjectCommand() {
  return {.name = "inject",
          .summary = "Put the probe into a running process",
          .example = "probing -t 1234 inject",
          .target = TargetUse::kRequired,
          .target_may_be_job = true,
          .options = {{"--job", "",
                       "into all ranks of this host's job at once; -t job:NAME when there are several"},
                      {"--hosts", "HOSTS",
                       "with --job: do that on each of these hosts by ssh, as in node[1-4]; PROBING_SSH is "
                       "the command to use"},
                      {"--hostfile", "FILE", "the same with the hosts of a file, as MPI takes it"},
                      {"--dll", "PATH", "the library to load (default: the probe)"},
                      {"--no-python", "", "also into a program without Python (yet)"},
                      {"--listen", "ADDRESS", "serve it there: the web page, HTTP and text for nc"},
                      {"--timeout", "SECONDS", "give up after this long (default: 5; 30 with --hosts)"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
