#include "cli/daemon_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/scoped_fd.h"
#include "cli/installation.h"
#include "cli/output.h"
#include "cli/web_socket.h"
#include "net/channel.h"
#include "net/http_answer.h"
#include "net/refusal.h"
#include "wire/contract.h"
#include "wire/diagnosis.h"
#include "wire/rendezvous.h"
#include "wire/settings.h"

namespace probing::cli {
namespace {

using net::Channel;
using net::HttpAnswer;

constexpr std::int64_t kStartTimeoutMs = 3000;
constexpr std::int64_t kAnswerTimeoutMs = 15000;
constexpr std::int64_t kConnectTimeoutMs = 5000;
// While an answer may take as long as it wants, the daemon is asked this often whether it is there, and has
// to say so within this time.
constexpr int kAliveEveryMs = 2000;
constexpr std::int64_t kAliveTimeoutMs = 8000;

constexpr std::size_t kMaxAnswerBytes = 4UL << 30;
constexpr int kHttpOk = 200;
constexpr int kHttpUnauthorized = 401;

// Where to ask when it is not the user's own daemon. Set once, at the start of a command.
std::optional<Endpoint>& Remote() {
  static std::optional<Endpoint> remote;
  return remote;
}

Result<Channel> OverSocket(Result<ScopedFd> fd) {
  if (!fd.ok()) return std::move(fd.error());
  return Channel(std::move(*fd));
}

Result<Channel> ConnectToRemote(const Endpoint& endpoint) {
  Result<Channel> channel = endpoint.address ? Channel::Dial(*endpoint.address, kConnectTimeoutMs)
                                             : OverSocket(wire::Connect(endpoint.socket_path, geteuid()));
  if (!channel.ok() && channel.error().hint.empty())
    channel.error().hint = "is it served there? `probing serve --listen` does that";
  if (channel.ok() && !channel->new_fingerprint().empty()) {
    PrintAside("probing: first visit to " + endpoint.ToText() + ", remembering its certificate " +
               channel->new_fingerprint() + "\n");
  }
  return channel;
}

std::optional<ScopedFd> ConnectOnce() {
  for (const std::string& directory : wire::RuntimeDirectories(geteuid())) {
    Result<ScopedFd> fd = wire::Connect(directory + "/probingd.sock", geteuid());
    if (fd.ok()) return std::move(*fd);
  }
  return std::nullopt;
}

// In the child of a child: becomes probingd, or says with an errno why it could not.
[[noreturn]] void BecomeDaemon(const std::string& program, const std::string& log_path, int error_pipe) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(log >= 0 ? log : null, STDERR_FILENO);
  (void)!chdir("/");
  // What makes other programs targets must not make one of the daemon.
  for (const char* variable : {"LD_PRELOAD", "PROBING", "PROBE"}) unsetenv(variable);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  execl(program.c_str(), "probingd", nullptr);
  const int error = errno;
  (void)!write(error_pipe, &error, sizeof(error));
  _exit(127);
}

bool settings_were_compared = false;  // once in a command

// A probingd that runs already does not see the variables of this command.
void SayWhatIsNotApplied() {
  if (std::exchange(settings_were_compared, true)) return;
  std::vector<std::pair<const wire::Setting*, std::string>> wanted;
  for (const wire::Setting& setting : wire::AllSettings()) {
    const char* text = setting.holder == wire::Holder::kDaemon
                           ? std::getenv(wire::EnvironmentName(setting).c_str())
                           : nullptr;
    if (text == nullptr || *text == '\0') continue;
    const Result<std::string> value = wire::CanonicalValue(setting, text);
    if (value.ok()) wanted.emplace_back(&setting, *value);
  }
  if (wanted.empty()) return;
  const std::optional<Json> answer = AskRunningDaemon(std::string(wire::kConfigRoute));
  for (const Json& now : answer ? answer->value("settings", Json::array()) : Json::array()) {
    for (const auto& [setting, value] : wanted) {
      if (now.value("name", "") != setting->name ||
          now.value("value", "") == wire::ShownValue(*setting, value))
        continue;
      const std::string variable = wire::EnvironmentName(*setting);
      PrintAside("probing: " + variable + " is not applied: probingd runs already, and " +
                 std::string(setting->name) + " is " + now.value("value", "") +
                 " there\n  hint: `probing config " + std::string(setting->name) + "=$" + variable +
                 "` changes it now\n");
    }
  }
}

Result<Channel> ConnectOrStart() {
  if (Remote()) return ConnectToRemote(*Remote());
  if (std::optional<ScopedFd> fd = ConnectOnce()) {
    SayWhatIsNotApplied();
    return Channel(std::move(*fd));
  }
  RETURN_IF_ERROR(StartDaemon());
  settings_were_compared = true;  // it has our environment
  const Deadline deadline = Deadline::AfterMs(kStartTimeoutMs);
  while (!deadline.passed()) {
    if (std::optional<ScopedFd> fd = ConnectOnce()) return Channel(std::move(*fd));
    SleepUs(300);
  }
  const Result<std::string> directory = wire::PrepareRuntimeDirectory();
  return Error{Code::kFailed, "probingd was started but does not answer",
               directory.ok() ? "its log is " + *directory + "/probingd.log" : directory.error().message};
}

std::string HeadFor(const std::string& method, const std::string& path) {
  const std::string host = Remote() && Remote()->address ? Remote()->address->ToText() : "localhost";
  const char* token = Remote() ? std::getenv("PROBING_TOKEN") : nullptr;
  return net::RequestHead(method, path, host, token != nullptr ? token : "") +
         std::string(wire::kVersionHeader) + ": " PROBING_VERSION "\r\n";
}

// Readable when somebody has given up waiting.
int GivenUpFd() {
  static const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd;
}

// Waits for the beginning of an answer for as long as the daemon is alive: one that is stopped (SIGSTOP, a
// debugger, a frozen cgroup) never answers.
Result<void> WaitWhileAlive(const Channel& channel) {
  std::uint64_t old = 0;
  (void)!read(GivenUpFd(), &old, sizeof(old));  // meant for a request before this one
  std::array<pollfd, 2> ready{pollfd{channel.fd(), POLLIN, 0}, pollfd{GivenUpFd(), POLLIN, 0}};
  while (true) {
    const int n = poll(ready.data(), ready.size(), kAliveEveryMs);
    if (n > 0 && ready[0].revents == 0) return Error{Code::kFailed, "interrupted", ""};
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return ErrnoError("wait for probingd");
    if (n < 0 || Remote()) continue;
    std::optional<ScopedFd> fd = ConnectOnce();
    if (!fd) continue;  // it has ended, and the connection tells
    Channel other(std::move(*fd));
    RETURN_IF_ERROR(other.Write(net::WithBody(HeadFor("GET", std::string(wire::kHealthRoute)), "")));
    const Result<HttpAnswer> alive =
        net::ReadAnswer(other, Deadline::AfterMs(kAliveTimeoutMs), kMaxAnswerBytes);
    if (alive.ok() || alive.error().code != Code::kTimeout) continue;
    pollfd now{channel.fd(), POLLIN, 0};
    if (poll(&now, 1, 0) > 0) return {};
    return Error{Code::kTimeout, "probingd does not answer: it is stopped, or the machine is overloaded",
                 "`kill -CONT` lets a stopped one go on; what was asked for may still happen then"};
  }
}

Result<HttpAnswer> Exchange(Channel& channel, const std::string& method, const std::string& path,
                            const std::string& body, Patience patience) {
  RETURN_IF_ERROR(channel.Write(net::WithBody(HeadFor(method, path), body)));
  std::optional<Deadline> deadline;
  if (patience == Patience::kSeconds) deadline = Deadline::AfterMs(kAnswerTimeoutMs);
  const bool can_poll = channel.fd() >= 0;  // an encrypted one has none
  if (patience == Patience::kEndless && can_poll) RETURN_IF_ERROR(WaitWhileAlive(channel));
  return net::ReadAnswer(channel, deadline, kMaxAnswerBytes);
}

Result<void> ReplaceDaemon(Channel& channel) {
  ASSIGN_OR_RETURN(const HttpAnswer stopped,
                   Exchange(channel, "POST", std::string(wire::kShutdownRoute), "{}", Patience::kSeconds));
  const Deadline deadline = Deadline::AfterMs(kStartTimeoutMs);
  while (ConnectOnce().has_value()) {
    if (deadline.passed())
      return Error{Code::kTimeout, "probingd of another version does not stop", "end it by hand"};
    SleepUs(1000);
  }
  return {};
}

Error NotJson() { return {Code::kFailed, "probingd answered something that is not JSON", ""}; }

// What an answer says beside itself, for people.
void PrintRemarks(const HttpAnswer& answer) {
  for (const std::string& field : answer.Headers(wire::kWarningHeader)) {
    const Json warning = Json::parse(field, nullptr, false);
    if (warning.is_string()) PrintAside("probing: warning: " + warning.get<std::string>() + "\n");
  }
}

// "\nprobing:   would get 120 rows of python.torch_steps, 5.2 KB, from node2:3344"
std::string PlanText(const Json& receipt) {
  std::string text;
  for (const Json& share : receipt.value("plan", Json::array())) {
    const bool is_known = share.value("rows", Json()).is_number();
    text += "\nprobing:   would get " +
            (is_known ? share["rows"].dump() + " rows" : std::string("the rows")) + " of " +
            share.value("table", "") +
            (is_known ? ", about " + share["bytes"].dump() + " bytes," : ", made when they are asked for,") +
            " from " + share.value("node", "");
  }
  return text;
}

// "\nprobing:   node2:3344: its clock is 3600.0 s ahead of ours, and its times are by that clock"
std::string ClocksText(const Json& receipt) {
  std::string text;
  for (const Json& clock : receipt.value("clocks", Json::array())) {
    const double ahead_ms = clock.value("ahead_ms", 0.0);
    std::array<char, 32> seconds{};
    (void)snprintf(seconds.data(), seconds.size(), "%.1f", std::abs(ahead_ms) / 1e3);
    text += "\nprobing:   " + clock.value("node", "") + ": its clock is " + seconds.data() + " s " +
            (ahead_ms > 0 ? "ahead of" : "behind") + " ours, and its times are by that clock";
  }
  return text;
}

bool PrintReceipts(const HttpAnswer& answer) {
  bool is_partial = false;
  for (const std::string& field : answer.Headers(wire::kReceiptHeader)) {
    const Json receipt = Json::parse(field, nullptr, false);
    if (receipt.is_object()) is_partial = PrintReceipt(receipt) || is_partial;
  }
  if (!answer.Headers(wire::kPartialHeader).empty()) is_partial = true;
  return is_partial;
}

Result<Bytes> FetchWhole(const std::string& method, const std::string& path, const std::string& body,
                         Patience patience) {
  signal(SIGPIPE, SIG_IGN);  // a daemon that ends meanwhile is an error, not a death
  ASSIGN_OR_RETURN(Channel channel, ConnectOrStart());
  ASSIGN_OR_RETURN(HttpAnswer answer, Exchange(channel, method, path, body, patience));
  if (answer.status == wire::kVersionMismatch && !Remote()) {
    RETURN_IF_ERROR(ReplaceDaemon(channel));
    ASSIGN_OR_RETURN(channel, ConnectOrStart());
    ASSIGN_OR_RETURN(answer, Exchange(channel, method, path, body, patience));
  }
  PrintRemarks(answer);
  if (answer.status == kHttpOk) return Bytes{std::move(answer.body), PrintReceipts(answer)};
  std::optional<Error> error = net::ErrorIn(Json::parse(answer.body, nullptr, false));
  if (!error) return NotJson();
  if (answer.status == kHttpUnauthorized) {
    return Error{Code::kPermission, Remote()->ToText() + " wants a token: " + error->message,
                 "`probing token` on that machine shows it; put it into PROBING_TOKEN"};
  }
  return std::move(*error);
}

Result<std::string> Fetch(const std::string& method, const std::string& path, const std::string& body,
                          Patience patience) {
  ASSIGN_OR_RETURN(Bytes answer, FetchWhole(method, path, body, patience));
  return std::move(answer.bytes);
}

Result<Json> Ask(const std::string& method, const std::string& path, const std::string& body,
                 Patience patience) {
  ASSIGN_OR_RETURN(const std::string text, Fetch(method, path, body, patience));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return NotJson();
  return json;
}

}  // namespace

void GiveUpRequests() {
  const std::uint64_t one = 1;
  (void)!write(GivenUpFd(), &one, sizeof(one));
}

bool PrintReceipt(const Json& receipt) {
  const Json failed = receipt.value("failed", Json::array());
  std::string text = "probing: " + std::string(failed.empty() ? "" : "partial: ") +
                     receipt.value("answered", Json(0)).dump() + " of " +
                     receipt.value("expected", Json(0)).dump() + " hosts answered";
  if (const Json dropped = receipt.value("dropped", Json(0)); dropped != 0)
    text += ", " + dropped.dump() + " rows were dropped by the probes of other hosts";
  for (const Json& each : failed)
    text += "\nprobing:   " + each.value("node", "") + ": " + each.value("reason", "");
  if (receipt.contains("epoch_before")) {
    text += "\nprobing:   the hosts changed meanwhile (epoch " + receipt["epoch_before"].dump() + ", now " +
            receipt.value("epoch", Json(0)).dump() + ")";
    for (const Json& node : receipt.value("restarted", Json::array()))
      text += node.is_string() ? "\nprobing:   " + node.get<std::string>() + ": its probingd was started anew"
                               : "";
  }
  text += ClocksText(receipt) + PlanText(receipt);
  PrintAside(text + "\n");
  return !failed.empty();
}

std::optional<Json> AskRunningDaemon(const std::string& path) {
  if (Remote()) return std::nullopt;
  std::optional<ScopedFd> fd = ConnectOnce();
  if (!fd) return std::nullopt;
  Channel channel(std::move(*fd));
  const Result<HttpAnswer> answer = Exchange(channel, "GET", path, "", Patience::kSeconds);
  if (!answer.ok() || answer->status != kHttpOk) return std::nullopt;
  Json json = Json::parse(answer->body, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

Result<Json> GetFromDaemon(const std::string& path, Patience patience) {
  return Ask("GET", path, "", patience);
}

Result<Json> PostToDaemon(const std::string& path, const Json& body, Patience patience) {
  return Ask("POST", path, EncodeJson(body), patience);
}

Result<std::string> GetBytes(const std::string& path, Patience patience) {
  return Fetch("GET", path, "", patience);
}

Result<Bytes> PostForBytes(const std::string& path, const Json& body, Patience patience) {
  return FetchWhole("POST", path, EncodeJson(body), patience);
}

Result<std::shared_ptr<WebSocket>> OpenWebSocket(const std::string& path) {
  // Replaces a daemon of another version, and says what is wrong where there is something.
  ASSIGN_OR_RETURN(const Json health, GetFromDaemon(std::string(wire::kHealthRoute)));
  ASSIGN_OR_RETURN(Channel channel, ConnectOrStart());
  // The key is to tell answers of a cache from ours; there is none between us and probingd.
  RETURN_IF_ERROR(channel.Write(HeadFor("GET", path) +
                                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Key: cHJvYmluZy1yZXBsLS0xMg==\r\n\r\n"));
  const std::optional<Deadline> deadline = Deadline::AfterMs(kAnswerTimeoutMs);
  std::string buffer;
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
    RETURN_IF_ERROR(channel.Read(buffer, deadline));
  if (!buffer.starts_with("HTTP/1.1 101 ")) {
    std::optional<Error> error = net::ErrorIn(Json::parse(buffer.substr(end + 4), nullptr, false));
    if (!error) return Error{Code::kFailed, "probingd opens no conversation", buffer.substr(0, 12)};
    return std::move(*error);
  }
  return std::make_shared<WebSocket>(std::move(channel), buffer.substr(end + 4));
}

void UseDaemonAt(Endpoint endpoint) { Remote() = std::move(endpoint); }

Result<void> StartDaemon() {
  if (ConnectOnce().has_value()) return {};
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareRuntimeDirectory());
  ASSIGN_OR_RETURN(const std::string program, FindDaemon());
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return ErrnoError("create a pipe");
  ScopedFd read_end(pipe_fds[0]);
  ScopedFd write_end(pipe_fds[1]);
  const pid_t child = fork();
  if (child < 0) return ErrnoError("start probingd");
  if (child == 0) {
    // A session of its own and no parent: it outlives this command and its terminal.
    setsid();
    if (fork() == 0) BecomeDaemon(program, directory + "/probingd.log", write_end.get());
    _exit(0);
  }
  write_end.Reset();
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  // The pipe closes at exec; something in it is the reason why there was none.
  int error = 0;
  if (read(read_end.get(), &error, sizeof(error)) == sizeof(error))
    return ErrnoError("start " + program, error);
  return {};
}

std::string EncodeJson(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string FormatJson(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace probing::cli
