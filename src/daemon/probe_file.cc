#include "daemon/probe_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/text.h"
#include "daemon/api_probe.h"

namespace probing::daemon {
namespace asio = boost::asio;
using namespace std::chrono_literals;
using server::Json;

namespace {

wire::Message RequestOf(const std::string& op, wire::Message message) {
  return std::move(message.Set("code", "").Set("op", op));
}

// Why nothing was recorded, as the probe says it.
Error FailureOf(const wire::Message& answer, const std::string& what) {
  const std::string outcome(answer.Get("outcome"));
  std::string_view text = Trim(answer.Get("traceback"), "\n ");
  if (answer.Get("exception") != "Refused" && answer.Get("exception") != "NoStep")
    text = text.substr(text.rfind('\n') + 1);  // the last line of a traceback
  if (outcome == "busy")
    return {Code::kFailed, "the target is busy with another evaluation", std::string(answer.Get("note"))};
  if (text.empty() || outcome == "timeout")
    return {outcome == "timeout" ? Code::kTimeout : Code::kFailed,
            "no " + what + ": the probe says " + outcome, std::string(answer.Get("note"))};
  return {Code::kFailed, "no " + what + ": " + std::string(text), ""};
}

}  // namespace

std::string ProbeFile::Path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
}

asio::awaitable<Result<ProbeFile>> AskForFile(Daemon& daemon, pid_t pid, std::string op,
                                              wire::Message request, std::string what) {
  const auto patience = std::chrono::milliseconds(request.GetNumber("timeout_ms")) + 3s;
  const Result<wire::Message> answer =
      co_await AskProbe(daemon, pid, RequestOf(op, std::move(request)), patience);
  if (!answer.ok()) co_return answer.error();
  ProbeFile found{.about = Json::parse(answer->Get("value"), nullptr, /*allow_exceptions=*/false),
                  .file = {}};
  const bool is_sound = answer->Get("outcome") == "ok" && found.about.is_object() &&
                        found.about.value("fd", Json()).is_number_integer();
  if (!is_sound) co_return FailureOf(*answer, what);
  const std::string path =
      "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(found.about["fd"].get<std::int64_t>());
  found.file = ScopedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int error = errno;
  (void)co_await AskProbe(daemon, pid, RequestOf(op, wire::Message::Request(0, "eval").Set("release", "1")));
  struct stat info{};
  if (!found.file.valid()) co_return ErrnoError("open the file of the " + what, error);
  if (fstat(found.file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    co_return Error{Code::kFailed, "the file of the " + what + " is no regular file", ""};
  co_return found;
}

}  // namespace probing::daemon
