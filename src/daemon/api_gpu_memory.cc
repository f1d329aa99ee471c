// Snapshots of torch's GPU allocator: taken by the probe, read here.
#include <sys/stat.h>

#include <utility>

#include "base/file.h"
#include "daemon/audit.h"
#include "daemon/probe_file.h"
#include "daemon/shared_rings.h"
#include "trace/memory_snapshot.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using namespace std::chrono_literals;
using server::Json;

namespace {

constexpr double kDefaultSeconds = 3;
constexpr double kMostSeconds = 3600;
constexpr auto kSlack = 60s;  // torch puts its snapshot together, and it is written
constexpr off_t kMostBytes = off_t{512} << 20;
constexpr std::size_t kMostValues = 16'000'000;

struct ReadBlocks {
  trace::Rings rings;
  std::size_t blocks = 0, bytes = 0;
  std::string problem;
};

Result<ReadBlocks> ReadSnapshot(const std::string& path, const Json& about, std::size_t most_blocks) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoError("look at the snapshot");
  if (info.st_size > kMostBytes) return Error{Code::kFailed, "the snapshot is larger than 512 MB", ""};
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(const DataTree tree, ReadPickle(bytes, kMostValues));
  ASSIGN_OR_RETURN(const trace::MemorySnapshot snapshot, trace::ReadMemorySnapshot(tree, most_blocks));
  ReadBlocks read;
  ASSIGN_OR_RETURN(read.rings, trace::WriteRows(snapshot, about.value("taken_ns", std::int64_t{0}),
                                                about.value("snapshot", std::int64_t{0})));
  read.blocks = snapshot.blocks.size();
  read.bytes = bytes.size();
  const std::uint64_t lost = snapshot.lost + read.rings.lost;
  if (lost > 0) {
    read.problem = std::to_string(lost) + " blocks are left out: no more than " +
                   std::to_string(most_blocks) + " are read (probing.trace.events)";
  }
  return read;
}

bool IsSound(const Json& about) {
  return about.value("snapshot", Json()).is_number_integer() &&
         about.value("taken_ns", Json()).is_number_integer() &&
         about.value("recorded_s", Json()).is_number() && about.value("held_ms", Json()).is_number() &&
         about.value("own", Json()).is_boolean();
}

asio::awaitable<Result<Json>> PostGpuMemory(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Json wanted = request.body.value("seconds", Json(kDefaultSeconds));
  const double seconds = wanted.is_number() ? wanted.get<double>() : -1;
  if (!(seconds >= 0 && seconds <= kMostSeconds))
    co_return Error{Code::kUsage, "seconds is a number from 0 to 3600", ""};
  Audit("gpu_memory", {{"by", request.peer}, {"target", *pid}});
  wire::Message question = wire::Message::Request(0, "eval").Set("seconds", std::to_string(seconds));
  question.Set("timeout_ms", static_cast<std::int64_t>(seconds * 1000) + 1000 * kSlack.count());
  Result<ProbeFile> answer = co_await AskForFile(daemon, *pid, "gpu_memory", std::move(question), "snapshot");
  if (!answer.ok()) co_return answer.error();
  const Json& about = answer->about;
  if (!IsSound(about)) co_return Error{Code::kFailed, "no snapshot: what the probe says makes no sense", ""};
  const auto most = static_cast<std::size_t>(daemon.settings.GetNumber("probing.trace.events"));
  Result<ReadBlocks> read = co_await Aside(daemon, [&] { return ReadSnapshot(answer->Path(), about, most); });
  if (!read.ok()) co_return read.error();
  Json told{{"snapshot", about["snapshot"]}, {"seconds", about["recorded_s"]}, {"own", about["own"]},
            {"taken_ns", about["taken_ns"]}, {"held_ms", about["held_ms"]},    {"blocks", read->blocks},
            {"bytes", read->bytes},          {"file", answer->Path()},         {"problem", read->problem}};
  daemon.targets.AddProfile(*pid, SharedRings(std::move(read->rings)), std::move(answer->file));
  co_return told;
}

}  // namespace

void AddGpuMemoryRoute(server::Router& router, Daemon& daemon) {
  router.Add("POST", wire::kGpuMemoryRoute, server::Right::kProfile,
             [&](const server::Request& request) { return PostGpuMemory(daemon, request); });
}

}  // namespace probing::daemon
