// Lines of the source around a frame, for the page of stacks.
//
// No file server: only what a thread of the target runs at this moment, and only Python files.
#include <algorithm>

#include "backtrace/backtrace.h"
#include "base/text.h"
#include "daemon/api_probe.h"
#include "process/source_file.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr int kDefaultAround = 8;
constexpr int kMaxAround = 200;

bool IsRunning(const backtrace::Picture& picture, const std::string& file) {
  for (const backtrace::ShownThread& thread : picture.threads) {
    for (const cpython::Frame& frame : thread.python.frames) {
      if (frame.file == file) return true;
    }
  }
  return false;
}

Result<std::string> ReadSource(pid_t pid, const std::string& file) {
  const Error unknown{Code::kNotFound, "no thread of process " + std::to_string(pid) + " is in " + file, ""};
  ASSIGN_OR_RETURN(const backtrace::Picture picture, backtrace::ReadLive(pid, {}));
  if (!IsRunning(picture, file)) return unknown;
  return process::ReadSourceFile(pid, file);
}

// Lines are counted from 1.
Json LinesAround(std::string_view text, const std::string& file, int line, int around) {
  Json lines = Json::array();
  const int first = std::max(1, line - around);
  for (int number = 1; !text.empty() && number <= line + around; ++number) {
    const std::string_view one = TakePart(text, '\n');
    if (number >= first) lines.push_back(one);
  }
  return {{"file", file}, {"first_line", first}, {"lines", std::move(lines)}};
}

Result<int> NumberOf(const server::Request& request, const char* name, int otherwise, int maximum) {
  const auto field = request.query.find(name);
  if (field == request.query.end()) return otherwise;
  int number = 0;
  if (!ParseNumber(field->second, number) || number < 0 || number > maximum)
    return Error{Code::kUsage, std::string(name) + " is a number up to " + std::to_string(maximum), ""};
  return number;
}

Answer GetSource(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const auto file = request.query.find("file");
  if (file == request.query.end()) co_return Error{Code::kUsage, "source needs a file", ""};
  const Result<int> line = NumberOf(request, "line", 1, 100'000'000);
  if (!line.ok()) co_return line.error();
  const Result<int> around = NumberOf(request, "around", kDefaultAround, kMaxAround);
  if (!around.ok()) co_return around.error();
  const Result<std::string> text = co_await Aside(daemon, [&] { return ReadSource(*pid, file->second); });
  if (!text.ok()) co_return text.error();
  co_return LinesAround(*text, file->second, *line, *around);
}

}  // namespace

void AddSourceRoute(server::Router& router, Daemon& daemon) {
  router.Add("GET", wire::kSourceRoute, server::Right::kRead,
             [&](const server::Request& request) { return GetSource(daemon, request); });
}

}  // namespace probing::daemon
