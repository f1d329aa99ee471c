// probing incident: everything that is known at this moment, as one file for a colleague or a bug report.
#include "wire/incident.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/new_file.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/recording.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kProgressUs = 100'000;

// One line on stderr that is gone at the end; nothing when that is no terminal.
class Waiting {
 public:
  Waiting() {
    if (isatty(STDERR_FILENO) != 1) return;
    thread_ = std::thread([this] {
      const std::int64_t began_ns = MonotonicNs();
      while (!over_) {
        const std::int64_t seconds = (MonotonicNs() - began_ns) / 1'000'000'000;
        DrawAside("\r\x1b[Kcollecting stacks, rows and findings: " + std::to_string(seconds) +
                  " s; ^C ends it");
        SleepUs(kProgressUs);
      }
      DrawAside("\r\x1b[K");
    });
  }
  ~Waiting() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

Result<Json> RequestOf(const Invocation& invocation) {
  Json request = Json::object();
  if (invocation.target) request["target"] = *invocation.target;
  if (invocation.job) {
    std::string job = *invocation.job;
    if (job.empty()) {
      ASSIGN_OR_RETURN(const auto ranks, RanksOfJob(""));
      job = ranks.front().identity.job;
    }
    request["job"] = job;
  }
  if (invocation.Has("--locals")) request["locals"] = true;
  if (invocation.Has("--max-size")) {
    ASSIGN_OR_RETURN(const double megabytes, invocation.GetNumber("--max-size", 0));
    request["max_bytes"] = static_cast<std::uint64_t>(megabytes * 1e6);
  }
  return request;
}

// What is in the file, by its index.
Json SummaryOf(std::string_view bytes) {
  wire::IncidentHead head{};
  if (bytes.size() < sizeof head) return Json::object();
  std::memcpy(&head, bytes.data(), sizeof head);
  const Json index =
      Json::parse(bytes.substr(sizeof head, head.index_bytes), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object()) return Json::object();
  std::int64_t rows = 0;
  std::int64_t left_out = 0;
  const Json tables = index.value("tables", Json::array());
  for (const Json& table : tables) {
    rows += table.value("rows", std::int64_t{0});
    left_out += table.value("left_out", std::int64_t{0});
  }
  Json classes = Json::array();
  const Json diagnosis = index.value("diagnosis", Json::object());
  for (const Json& finding : diagnosis.value("findings", Json::array()))
    classes.push_back(finding.value("class", ""));
  return {{"bytes", bytes.size()},
          {"processes", index.value("processes", Json(0))},
          {"tables", tables.size()},
          {"rows", rows},
          {"left_out", left_out},
          {"findings", classes},
          {"problems", index.value("problems", Json::array())}};
}

std::string Megabytes(const Json& summary) {
  const std::int64_t kilobytes = (summary.value("bytes", std::int64_t{0}) + 999) / 1000;
  if (kilobytes < 1000) return std::to_string(kilobytes) + " kB";
  return std::to_string(kilobytes / 1000) + "." + std::to_string(kilobytes % 1000 / 100) + " MB";
}

std::string Counted(const Json& summary, const char* name, const char* one, const char* many) {
  const std::int64_t count = summary.value(name, std::int64_t{0});
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

void Report(const Json& summary, const std::string& path, double seconds) {
  PrintAside(Counted(summary, "processes", "process", "processes") + ", " +
             Counted(summary, "rows", "row", "rows") + " of " +
             Counted(summary, "tables", "table", "tables") + ", " + Megabytes(summary) + ", in " +
             std::to_string(static_cast<int>(seconds * 10) / 10) + "." +
             std::to_string(static_cast<int>(seconds * 10) % 10) + " s\n");
  std::string found;
  for (const Json& name : summary.value("findings", Json::array()))
    found += (found.empty() ? "" : ", ") + (name.is_string() ? name.get<std::string>() : "");
  PrintAside("found: " + (found.empty() ? "nothing" : found) + "\n");
  for (const Json& problem : summary.value("problems", Json::array()))
    PrintAside("note: " + (problem.is_string() ? problem.get<std::string>() : "") + "\n");
  PrintAside("open it anywhere: `probing -t " + (LooksLikeDirectory(path) ? path : "./" + path) +
             " diagnose`\n");
}

Result<int> Run(const Invocation& invocation) {
  const std::string path = invocation.Get("--output");
  if (path.empty())
    return Error{Code::kUsage, "incident needs a file", "as in `probing incident -o hang.incident`"};
  struct stat info{};
  if (path != "-" && lstat(path.c_str(), &info) == 0) {
    return Error{Code::kUsage, path + " is there already",
                 "an incident is never written over something: choose another name"};
  }
  RETURN_IF_ERROR(CheckWritable(path));
  ASSIGN_OR_RETURN(const Json request, RequestOf(invocation));
  const std::int64_t began_ns = MonotonicNs();
  Result<Bytes> answer = Error{Code::kFailed, "", ""};
  {
    const Waiting waiting;
    answer = PostForBytes(std::string(wire::kIncidentRoute), request, Patience::kEndless);
  }
  if (!answer.ok()) return answer.error();
  if (path == "-") {
    if (isatty(STDOUT_FILENO) == 1)
      return Error{Code::kUsage, "an incident is no text for a terminal", "name a file: -o hang.incident"};
    RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, answer->bytes));
  } else {
    RETURN_IF_ERROR(WriteNewFile(path, answer->bytes));
  }
  Json summary = SummaryOf(answer->bytes);
  const double seconds = static_cast<double>(MonotonicNs() - began_ns) / 1e9;
  if (invocation.Has("--json")) {
    summary["file"] = path;
    summary["seconds"] = seconds;
    Print(FormatJson(summary));
  } else {
    if (path != "-") Print(path + "\n");
    Report(summary, path, seconds);
  }
  return answer->is_partial ? static_cast<int>(Code::kPartial) : 0;
}

}  // namespace

Command IncidentCommand() {
  return {.name = "incident",
          .summary = "Write stacks, rows, samples and findings of all ranks to one file that opens anywhere",
          .example = "probing incident -o hang.incident",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .target_may_be_job = true,
          .all_is_fine = true,
          .options = {{"-o,--output", "FILE", "a new file, as hang.incident; - is stdout"},
                      {"--locals", "", "also the local variables of all frames, which may be secret"},
                      {"--max-size", "MEGABYTES", "how large the file may become (20)"},
                      {"--json", "", "print JSON: what is in it"}},
          .run = Run};
}

}  // namespace probing::cli
