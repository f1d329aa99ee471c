// A `probing` without a daemon, for tests on a machine whose processor is emulated: it has of the command
// line what enters, asks and leaves a process, and asks the probe itself. So it needs neither probingd nor
// DuckDB (tools/arm64_tests.py).
//
//   probing -t PID inject|eject|eval CODE      and `list`, which does nothing
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "inject/inject.h"
#include "process/status.h"
#include "wire/message.h"
#include "wire/rendezvous.h"

namespace probing {
namespace {

constexpr std::int64_t kPatienceMs = 60'000;

struct Request {
  pid_t pid = 0;
  std::string command;
  std::string code;  // of eval
};

Request Parse(const std::vector<std::string>& words) {
  Request request;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-t" && i + 1 < words.size()) {
      request.pid = static_cast<pid_t>(strtol(words[++i].c_str(), nullptr, 10));
    } else if (word == "--timeout") {
      ++i;
    } else if (word == "--no-python") {
      continue;  // it is never asked for
    } else if (request.command.empty()) {
      request.command = word;
    } else {
      request.code = word;
    }
  }
  return request;
}

Result<wire::Message> Ask(pid_t pid, const wire::Message& question) {
  ASSIGN_OR_RETURN(const ScopedFd fd, wire::ConnectToProbe(pid));
  ASSIGN_OR_RETURN(wire::Message answer, wire::Call(fd.get(), question, kPatienceMs));
  if (std::optional<Error> failure = answer.failure()) return std::move(*failure);
  return answer;
}

Result<int> Enter(pid_t pid) {
  const wire::Message hello = wire::Message::Request(1, "hello");
  if (Ask(pid, hello).ok()) {
    printf("process %d is probed already\n", pid);
    return 0;
  }
  RETURN_IF_ERROR(inject::Preflight(pid));
  std::string library(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", library.data(), library.size());
  library.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  library = library.substr(0, library.rfind('/')) + "/libprobing.so";
  ASSIGN_OR_RETURN(const inject::Report report,
                   inject::Inject({.pid = pid, .library_path = library, .timeout_ms = kPatienceMs}));
  const Deadline deadline = Deadline::AfterMs(kPatienceMs);
  while (true) {
    const Result<wire::Message> answer = Ask(pid, hello);
    if (answer.ok()) break;
    if (deadline.passed()) return answer.error();
    SleepUs(1000);
  }
  printf("injected libprobing.so into %d in %.1f ms, thread %d held for %.2f ms\n", pid,
         static_cast<double>(report.total_us) / 1000, report.held_thread,
         static_cast<double>(report.held_us) / 1000);
  return 0;
}

// The library or a thread of the probe.
bool IsIn(pid_t pid) {
  const auto maps = ReadFile("/proc/" + std::to_string(pid) + "/maps");
  if (!maps.ok()) return false;
  if (maps->find("libprobing") != std::string::npos) return true;
  const auto threads = process::ListThreads(pid);
  return threads.ok() && std::ranges::any_of(*threads, [pid](pid_t tid) {
           const auto name =
               ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm");
           return name.ok() && name->starts_with("probing");
         });
}

Result<int> Leave(pid_t pid) {
  ASSIGN_OR_RETURN(const wire::Message answer, Ask(pid, wire::Message::Request(1, "eject")));
  const std::string note(answer.Get("note"));
  const Deadline deadline = Deadline::AfterMs(kPatienceMs);
  while (note.empty() && IsIn(pid)) {
    if (deadline.passed()) return Error{Code::kTimeout, "the library or a thread of it stays", ""};
    SleepUs(1000);
  }
  printf("ejected the probe from %d%s%s\n", pid, note.empty() ? "" : ": ", note.c_str());
  return 0;
}

Result<int> Evaluate(pid_t pid, const std::string& code) {
  ASSIGN_OR_RETURN(
      const wire::Message answer,
      Ask(pid, wire::Message::Request(1, "eval").Set("code", code).Set("timeout_ms", kPatienceMs)));
  fputs(std::string(answer.Get("stdout")).c_str(), stdout);
  fputs(std::string(answer.Get("stderr")).c_str(), stderr);
  if (answer.Has("value")) printf("%s\n", std::string(answer.Get("value")).c_str());
  fputs(std::string(answer.Get("traceback")).c_str(), stderr);
  return answer.Get("outcome") == "ok" ? 0 : 1;
}

Result<int> Run(const Request& request) {
  if (request.command == "list") return 0;
  if (request.command == "inject") return Enter(request.pid);
  if (request.command == "eject") return Leave(request.pid);
  if (request.command == "eval") return Evaluate(request.pid, request.code);
  return Error{Code::kUsage, "this small probing has no " + request.command, ""};
}

}  // namespace
}  // namespace probing

int main(int argc, char** argv) {
  const probing::Result<int> result = probing::Run(probing::Parse({argv + 1, argv + argc}));
  if (result.ok()) return *result;
  fprintf(stderr, "probing: %s\n", result.error().message.c_str());
  return static_cast<int>(result.error().code);
}
