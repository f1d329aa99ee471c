#include "cli/each_host.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/file.h"
#include "base/quote.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "wire/node_list.h"

namespace probing::cli {
namespace {

constexpr std::size_t kMaxOutputBytes = 4 << 20;  // of one host; the rest is not wanted
constexpr std::string_view kSpace = " \t\r\n";

struct Running {
  pid_t pid = -1;
  ScopedFd out;
  ScopedFd err;
  bool has_ended() const { return !out.valid() && !err.valid(); }
};

struct Pipe {
  ScopedFd read;
  ScopedFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("make a pipe");
  return Pipe{ScopedFd(ends[0]), ScopedFd(ends[1])};
}

Result<Running> Start(const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // what it starts ends with it
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return ErrnoError("run " + command[0], failed);
  return Running{pid, std::move(out.read), std::move(err.read)};
}

// Appends what has come; closes the pipe at its end.
void Take(ScopedFd& fd, std::string& text) {
  std::array<char, 16384> bytes;
  const ssize_t got = read(fd.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    fd = ScopedFd();
  } else if (text.size() < kMaxOutputBytes) {
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// Until all of them have said all, or the deadline.
void Listen(std::vector<Running>& running, std::vector<HostOutcome>& outcomes, const Deadline& deadline) {
  while (true) {
    std::vector<pollfd> watched;
    std::vector<std::pair<ScopedFd*, std::string*>> pipes;
    for (std::size_t i = 0; i < running.size(); ++i) {
      for (const auto& [fd, text] :
           {std::pair{&running[i].out, &outcomes[i].out}, std::pair{&running[i].err, &outcomes[i].err}}) {
        if (!fd->valid()) continue;
        watched.push_back({fd->get(), POLLIN, 0});
        pipes.emplace_back(fd, text);
      }
    }
    if (watched.empty()) return;
    const int n = poll(watched.data(), watched.size(), deadline.left_ms());
    if (n == 0) return;
    for (std::size_t i = 0; n > 0 && i < watched.size(); ++i) {
      if (watched[i].revents != 0) Take(*pipes[i].first, *pipes[i].second);
    }
  }
}

std::optional<int> Reap(const Running& running) {
  if (running.pid < 0) return std::nullopt;
  if (!running.has_ended()) kill(-running.pid, SIGKILL);
  int status = 0;
  while (waitpid(running.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!running.has_ended()) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string HostOutcome::Problem() const {
  if (ok()) return "";
  if (!started) return err;
  if (!code) return "did not answer in time";
  // ssh and the shell there may have printed a greeting or a warning before. What probing says comes first in
  // its own lines; the reason why it, or ssh itself, could not be run is in the last.
  constexpr int kNotFound = 127;
  constexpr int kOfSsh = 255;
  std::string first;
  std::string last;
  std::string_view rest = err;
  while (!rest.empty()) {
    std::string_view line = Trim(TakePart(rest, '\n'), kSpace);
    for (const std::string_view prefix : {"probing: ", "error: "}) {
      if (!line.starts_with(prefix)) continue;
      line.remove_prefix(prefix.size());
      if (*code != kNotFound && *code != kOfSsh) return std::string(line);
    }
    if (line.empty()) continue;
    if (first.empty()) first = line;
    last = line;
  }
  if (*code == kNotFound)
    return "probing is not installed there, or not on the PATH of a shell that nobody logs in to" +
           (last.empty() ? "" : " (" + last + ")");
  if (*code == kOfSsh && !last.empty()) return last;
  return first.empty() ? "ended with code " + std::to_string(*code) : first;
}

std::vector<HostOutcome> OnEachHost(const std::vector<std::string>& hosts, const std::string& ssh,
                                    const std::vector<std::string>& words, const Deadline& deadline) {
  std::vector<HostOutcome> outcomes;
  std::vector<Running> running;
  std::string remote;
  for (const std::string& word : words) remote += (remote.empty() ? "" : " ") + QuoteForShell(word);
  for (const std::string& host : hosts) {
    std::vector<std::string> command;
    for (std::string_view rest = ssh; !rest.empty();) {
      if (const std::string_view word = TakePart(rest, ' '); !word.empty()) command.emplace_back(word);
    }
    if (command.empty()) command.emplace_back("ssh");
    for (const char* word : {"-T", "-o", "BatchMode=yes", "--"}) command.emplace_back(word);
    command.push_back(host);
    command.push_back(remote);
    Result<Running> started = Start(command);
    outcomes.push_back({.host = host, .started = started.ok(), .code = {}, .out = {}, .err = {}});
    if (!started.ok()) outcomes.back().err = started.error().message;
    running.push_back(started.ok() ? std::move(*started) : Running{});
  }
  Listen(running, outcomes, deadline);
  for (std::size_t i = 0; i < hosts.size(); ++i) outcomes[i].code = Reap(running[i]);
  return outcomes;
}

Result<std::vector<std::string>> ReadHostFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::string list;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakePart(rest, '\n');
    line = Trim(line.substr(0, line.find('#')), kSpace);
    std::string_view host = line.substr(0, line.find_first_of(kSpace));
    host = host.substr(0, host.find(':'));  // node1:8, as MPICH writes it
    if (!host.empty()) list += (list.empty() ? "" : ",") + std::string(host);
  }
  Result<std::vector<std::string>> hosts = wire::ParseHosts(list);
  if (!hosts.ok()) hosts.error().message = path + ": " + hosts.error().message;
  return hosts;
}

}  // namespace probing::cli
