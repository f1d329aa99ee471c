#include "cli/dap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "cli/debug_client.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

using State = DebugClient::State;
constexpr int kTickMs = 50;
constexpr std::string_view kLength = "Content-Length: ";

// One editor, one thread of the target.
class Adapter {
 public:
  Adapter(const Invocation& invocation, ScopedFd socket)
      : client_(*invocation.target), thread_(invocation.Get("--thread")), socket_(std::move(socket)) {}

  Result<int> Serve() {
    ASSIGN_OR_RETURN(seen_, client_.Beat());
    while (!done_) {
      pollfd ready{socket_.get(), POLLIN, 0};
      const int n = poll(&ready, 1, kTickMs);
      if (n > 0 && !Receive()) break;
      ASSIGN_OR_RETURN(const std::int64_t stops, client_.Beat());
      if (attached_ && stops > seen_) {
        seen_ = stops;
        SendStopped();
      }
    }
    if (attached_) (void)client_.Ask("detach");
    return 0;
  }

 private:
  // False when the editor is gone.
  bool Receive() {
    std::array<char, 16384> bytes;
    const ssize_t n = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
    while (true) {
      const std::size_t end = buffer_.find("\r\n\r\n");
      if (end == std::string::npos) return true;
      const std::size_t at = buffer_.find(kLength);
      if (at == std::string::npos || at > end) return false;
      const std::size_t size = std::strtoul(&buffer_[at + kLength.size()], nullptr, 10);
      if (buffer_.size() < end + 4 + size) return true;
      const Json request = Json::parse(buffer_.substr(end + 4, size), nullptr, false);
      buffer_.erase(0, end + 4 + size);
      if (!request.is_object()) return false;
      Answer(request);
    }
  }

  void Send(Json message) {
    message["seq"] = ++sequence_;
    const std::string body = EncodeJson(message);
    (void)WriteAll(socket_.get(), std::string(kLength) + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  void SendEvent(const char* event, Json body) {
    Send({{"type", "event"}, {"event", event}, {"body", std::move(body)}});
  }

  void SendStopped() {
    const Result<Json> why = client_.Question("reason");
    const std::string text = why.ok() ? why->value("reason", "pause") : "pause";
    const std::string reason = text.starts_with("breakpoint") ? "breakpoint"
                               : text == "pause"              ? "pause"
                               : text == "next" || text == "step" || text == "return" || text == "until"
                                   ? "step"
                                   : "exception";
    tid_ = why.ok() ? why->value("tid", 1) : 1;
    references_.clear();
    SendEvent("stopped",
              {{"reason", reason}, {"text", text}, {"threadId", tid_}, {"allThreadsStopped", false}});
  }

  void Answer(const Json& request) {
    const std::string command = request.value("command", "");
    const Json arguments = request.value("arguments", Json::object());
    Result<Json> body = Handle(command, arguments);
    Json response{{"type", "response"},
                  {"request_seq", request.value("seq", 0)},
                  {"command", command},
                  {"success", body.ok()}};
    if (body.ok()) {
      response["body"] = std::move(*body);
    } else {
      response["message"] = body.error().message;
    }
    Send(std::move(response));
    if (command == "attach" && body.ok()) SendEvent("initialized", Json::object());
  }

  Result<Json> Word(const std::string& word) {
    ASSIGN_OR_RETURN(const DebugClient::Answer answer, client_.Ask(word));
    if (answer.refused) return Error{Code::kFailed, answer.text, ""};
    return Json::object();
  }

  Result<Json> Handle(const std::string& command, const Json& arguments) {
    if (command == "initialize") return Capabilities();
    if (command == "attach" || command == "launch") return Attach(arguments);
    if (command == "setBreakpoints") return SetBreakpoints(arguments);
    if (command == "setExceptionBreakpoints") return CatchExceptions(arguments);
    if (command == "threads") return Threads();
    if (command == "stackTrace") return StackTrace();
    if (command == "scopes") return Scopes(arguments);
    if (command == "variables") return Variables(arguments);
    if (command == "evaluate") return Evaluate(arguments);
    if (command == "continue") {
      RETURN_IF_ERROR(Word("continue"));
      return Json{{"allThreadsContinued", false}};
    }
    if (command == "next") return Word("next");
    if (command == "stepIn") return Word("step");
    if (command == "stepOut") return Word("return");
    if (command == "pause") return Word("pause");
    if (command == "disconnect" || command == "terminate") {
      done_ = true;
      return Json::object();
    }
    if (command == "configurationDone") return ConfigurationDone();
    return Error{Code::kUsage, "the debugger of probing does not know " + command, ""};
  }

  static Result<Json> Capabilities() {
    return Json{{"supportsConfigurationDoneRequest", true},
                {"supportsConditionalBreakpoints", true},
                {"supportsEvaluateForHovers", true},
                {"exceptionBreakpointFilters",
                 Json::array({{{"filter", "raised"}, {"label", "Raised Exceptions"}, {"default", false}}})}};
  }

  Result<Json> Attach(const Json& arguments) {
    const char* full = arguments.value("justMyCode", true) ? "" : " full";
    ASSIGN_OR_RETURN(const DebugClient::Answer answer, client_.Ask("attach " + thread_ + full));
    if (answer.refused) return Error{Code::kFailed, answer.text, ""};
    attached_ = true;
    return Json::object();
  }

  // The thread was stopped so that breakpoints can be set; who set them all wants it to run.
  Result<Json> ConfigurationDone() { return Json::object(); }

  Result<Json> SetBreakpoints(const Json& arguments) {
    std::string question = "set " + arguments.value("source", Json::object()).value("path", "");
    for (const Json& point : arguments.value("breakpoints", Json::array())) {
      question += "\t" + std::to_string(point.value("line", 0)) + "\t" + point.value("condition", "");
    }
    ASSIGN_OR_RETURN(Json points, client_.Question(question));
    return Json{{"breakpoints", std::move(points)}};
  }

  Result<Json> CatchExceptions(const Json& arguments) {
    return Word(arguments.value("filters", Json::array()).empty() ? "catch off" : "catch on");
  }

  Result<Json> Threads() {
    ASSIGN_OR_RETURN(const Json found, client_.Question("threads"));
    Json threads = Json::array();
    for (const Json& thread : found) {
      threads.push_back({{"id", thread.value("tid", std::int64_t{0})}, {"name", thread.value("name", "")}});
    }
    return Json{{"threads", std::move(threads)}};
  }

  Result<Json> StackTrace() {
    ASSIGN_OR_RETURN(const Json found, client_.Question("stack"));
    Json frames = Json::array();
    for (const Json& frame : found) {
      const std::string file = frame.value("file", "");
      frames.push_back({{"id", frame.value("id", 0) + 1},
                        {"name", frame.value("name", "")},
                        {"line", frame.value("line", 0)},
                        {"column", 1},
                        {"source", {{"name", file.substr(file.rfind('/') + 1)}, {"path", file}}}});
    }
    const std::size_t count = frames.size();
    return Json{{"stackFrames", std::move(frames)}, {"totalFrames", count}};
  }

  // What a number of the protocol stands for: a frame, and the way to something inside of it.
  int ReferenceTo(const std::string& path) {
    references_.push_back(path);
    return static_cast<int>(references_.size());
  }

  Result<Json> Scopes(const Json& arguments) {
    const std::string frame = std::to_string(arguments.value("frameId", 1) - 1);
    return Json{{"scopes", Json::array({{{"name", "Locals"},
                                         {"variablesReference", ReferenceTo(frame)},
                                         {"expensive", false}}})}};
  }

  Result<Json> Variables(const Json& arguments) {
    const auto number = arguments.value("variablesReference", std::size_t{0});
    if (number == 0 || number > references_.size()) return Error{Code::kFailed, "that is gone", ""};
    const std::string path = references_[number - 1];
    ASSIGN_OR_RETURN(const Json found, client_.Question("variables " + path));
    Json variables = Json::array();
    for (const Json& variable : found) {
      const std::string name = variable.value("name", "");
      const bool inside = variable.value("inside", false);
      variables.push_back({{"name", name},
                           {"value", variable.value("value", "")},
                           {"type", variable.value("type", "")},
                           {"variablesReference", inside ? ReferenceTo(path + "\t" + name) : 0}});
    }
    return Json{{"variables", std::move(variables)}};
  }

  Result<Json> Evaluate(const Json& arguments) {
    const std::string frame = std::to_string(arguments.value("frameId", 1) - 1);
    ASSIGN_OR_RETURN(const Json found,
                     client_.Question("evaluate " + frame + " " + arguments.value("expression", "")));
    return Json{
        {"result", found.value("value", "")}, {"type", found.value("type", "")}, {"variablesReference", 0}};
  }

  const DebugClient client_;
  const std::string thread_;
  const ScopedFd socket_;
  std::string buffer_;
  int sequence_ = 0;
  std::int64_t seen_ = 0;
  std::int64_t tid_ = 1;
  bool attached_ = false;
  bool done_ = false;
  std::vector<std::string> references_;
};

// Whether the other end of a connection within this host belongs to this user or to root. The kernel's
// list has both ends of it; the one whose remote port is ours is the client's.
bool PeerIsOurs(int socket_fd) {
  sockaddr_in here{};
  sockaddr_in there{};
  socklen_t here_size = sizeof(here);
  socklen_t there_size = sizeof(there);
  if (getsockname(socket_fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      getpeername(socket_fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) {
    return false;
  }
  std::array<char, 64> ends{};
  std::snprintf(ends.data(), ends.size(), " %08X:%04X %08X:%04X ", there.sin_addr.s_addr,
                ntohs(there.sin_port), here.sin_addr.s_addr, ntohs(here.sin_port));
  const Result<std::string> table = ReadFile("/proc/self/net/tcp");
  if (!table.ok()) return false;
  const std::size_t at = table->find(ends.data());
  if (at == std::string::npos) return false;
  // Behind the two addresses: state, queues, timer, retransmissions, uid.
  unsigned uid = 0;
  const char* rest = table->c_str() + at + std::strlen(ends.data());
  if (std::sscanf(rest, "%*x %*x:%*x %*x:%*x %*x %u", &uid) != 1) return false;
  return uid == geteuid() || uid == 0;
}

}  // namespace

Result<int> ServeDebugAdapter(const Invocation& invocation) {
  const std::string text = invocation.Get("--dap");
  const long port = std::strtol(text.c_str(), nullptr, 10);
  if (port < 0 || port > 65535 || text.find_first_not_of("0123456789") != std::string::npos) {
    return Error{Code::kUsage, "--dap takes the number of a port", "0 chooses a free one"};
  }
  const ScopedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 1) != 0) {
    return ErrnoError("listen on port " + text + " of localhost");
  }
  socklen_t size = sizeof(address);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  Print("127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "\n");
  ScopedFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.valid()) return ErrnoError("accept a debug client");
  if (!PeerIsOurs(client.get())) {
    return Error{Code::kPermission, "a debug client of another user connected and was refused", ""};
  }
  return Adapter(invocation, std::move(client)).Serve();
}

}  // namespace probing::cli
