#include "cli/gpu_memory.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "cli/recorded_file.h"
#include "cli/recording.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr int kDefaultTop = 10;
constexpr std::size_t kShownFrames = 4;
constexpr std::size_t kLongestName = 60;

constexpr const char* kDevicesSql = R"(
SELECT device, count(DISTINCT segment) AS segments,
       coalesce(sum(bytes) FILTER (WHERE state <> 'failed'), 0)::BIGINT AS reserved,
       coalesce(sum(bytes) FILTER (WHERE state = 'allocated'), 0)::BIGINT AS allocated,
       coalesce(sum(bytes - requested_bytes) FILTER (WHERE state = 'allocated'), 0)::BIGINT AS rounding,
       coalesce(sum(bytes) FILTER (WHERE state = 'pending_free'), 0)::BIGINT AS pending_free,
       coalesce(sum(bytes) FILTER (WHERE state = 'free'), 0)::BIGINT AS free,
       coalesce(max(bytes) FILTER (WHERE state = 'free'), 0) AS largest_free
FROM gpu.memory_blocks WHERE snapshot = (SELECT max(snapshot) FROM gpu.memory_blocks)
GROUP BY device ORDER BY device)";
constexpr const char* kFailedSql = R"(
SELECT device, bytes, age_s, func, file, lineno FROM gpu.memory_blocks
WHERE state = 'failed' AND snapshot = (SELECT max(snapshot) FROM gpu.memory_blocks) ORDER BY age_s LIMIT 3)";
// LIMIT comes behind it.
constexpr const char* kHoldersSql = R"(
SELECT device, count(*) AS blocks, sum(bytes)::BIGINT AS bytes, func, file, lineno, stack,
       round(max(age_s), 1) AS oldest_s
FROM gpu.memory_blocks
WHERE state IN ('allocated', 'pending_free') AND snapshot = (SELECT max(snapshot) FROM gpu.memory_blocks)
GROUP BY device, func, file, lineno, stack ORDER BY bytes DESC LIMIT )";

Result<Json> RowsOf(const Invocation& invocation, const std::string& sql) {
  ASSIGN_OR_RETURN(
      const std::string answer,
      Query({.target = invocation.target, .directory = invocation.directory, .sql = sql, .format = "json"}));
  Json rows = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return Error{Code::kFailed, "cannot read what probingd answered", ""};
  return rows;
}

std::string Size(const Json& row, const char* name) {
  return FormatBytes(row[name].is_number() ? row[name].get<double>() : 0);
}

std::string Count(const Json& row, const char* name, std::string_view one, std::string_view many) {
  const std::int64_t count = row[name].is_number() ? row[name].get<std::int64_t>() : 0;
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

// "forward (model.py:33)"; "" when nobody knows.
std::string PlaceOf(const Json& row) {
  if (!row["func"].is_string()) return "";
  const std::string file = row["file"].is_string() ? row["file"].get<std::string>() : "";
  std::string place = OneLine(row["func"].get<std::string>(), kLongestName);
  if (file.empty()) return place;
  const std::int64_t line = row["lineno"].is_number() ? row["lineno"].get<std::int64_t>() : 0;
  return place + " (" + OneLine(file.substr(file.rfind('/') + 1), kLongestName) + ":" + std::to_string(line) +
         ")";
}

// The innermost frames of a stack, outermost first.
std::string EndOf(const Json& row) {
  if (!row["stack"].is_string()) return "";
  std::string_view rest = row["stack"].get_ref<const std::string&>();
  std::string text;
  for (std::size_t i = 0; i < kShownFrames && !rest.empty(); ++i) {
    const std::size_t cut = rest.rfind(';');
    const std::string_view frame = cut == std::string_view::npos ? rest : rest.substr(cut + 1);
    text = OneLine(frame, 2 * kLongestName) + (text.empty() ? "" : " > " + text);
    rest = cut == std::string_view::npos ? std::string_view() : rest.substr(0, cut);
  }
  return (rest.empty() ? "" : "… > ") + text;
}

std::string DescribeDevice(const Json& row) {
  std::string text = Painted("GPU " + std::to_string(row["device"].get<std::int64_t>()), Colour::kBold) +
                     ": " + Size(row, "reserved") + " reserved in " +
                     Count(row, "segments", "segment", "segments") + ": " + Size(row, "allocated") +
                     " allocated (" + Size(row, "rounding") + " of it by rounding), " + Size(row, "free") +
                     " free (the largest piece " + Size(row, "largest_free") + ")";
  if (row["pending_free"] != 0) text += ", " + Size(row, "pending_free") + " in use by another stream";
  return text + "\n";
}

std::string DescribeFailed(const Json& row, const Json& device) {
  std::string text = "  " + Painted("out of memory", Colour::kRed);
  if (row["age_s"].is_number())
    text += " " + FormatDuration(static_cast<std::int64_t>(row["age_s"].get<double>())) + " ago";
  text += ": " + Size(row, "bytes") + " were asked for";
  const std::string place = PlaceOf(row);
  if (!place.empty()) text += " in " + place;
  const auto number = [](const Json& from, const char* name) {
    return from[name].is_number() ? from[name].get<double>() : 0;
  };
  if (number(device, "free") >= number(row, "bytes") && number(device, "largest_free") < number(row, "bytes"))
    text += "; enough is free, but in pieces that are too small (fragmentation)";
  return text + "\n";
}

std::string DescribeHolder(const Json& row, int number) {
  const std::string place = PlaceOf(row);
  std::string text = "  " + std::to_string(number) + ". " + Painted(Size(row, "bytes"), Colour::kBold) +
                     " in " + Count(row, "blocks", "block", "blocks") + ": ";
  if (place.empty()) return text + "allocated while torch recorded no history\n";
  return text + place + "\n       " + EndOf(row) + "\n";
}

std::string ReportText(const Json& report) {
  std::string text;
  for (const Json& device : report["devices"]) {
    text += DescribeDevice(device);
    for (const Json& row : report["failed"]) {
      if (row["device"] == device["device"]) text += DescribeFailed(row, device);
    }
    int number = 0;
    for (const Json& row : report["holders"]) {
      if (row["device"] == device["device"]) text += DescribeHolder(row, ++number);
    }
  }
  return text.empty() ? "torch's allocator has no memory of a GPU\n" : text;
}

// Has a snapshot taken. True when it is not all that was asked for.
Result<bool> TakeSnapshot(const Invocation& invocation) {
  if (invocation.Has("--output")) {
    if (invocation.endpoint)
      return Error{Code::kUsage, "-o writes a file of the machine the target is on", "run it there"};
    RETURN_IF_ERROR(CheckWritable(invocation.Get("--output")));
  }
  Json request{{"target", *invocation.target}};
  if (invocation.Has("--duration")) {
    ASSIGN_OR_RETURN(request["seconds"], invocation.GetNumber("--duration", 1));
  }
  ASSIGN_OR_RETURN(const Json taken,
                   PostToDaemon(std::string(wire::kGpuMemoryRoute), request, Patience::kEndless));
  if (invocation.Has("--output"))
    RETURN_IF_ERROR(CopyRecordedFile(taken.value("file", ""), invocation.Get("--output")));
  if (taken.value("own", false))
    PrintAside("the job records its memory history itself: nothing was switched\n");
  const std::string problem = taken.value("problem", "");
  if (!problem.empty()) PrintAside("probing: " + problem + "\n");
  return !problem.empty();
}

}  // namespace

Result<int> ShowGpuMemory(const Invocation& invocation) {
  int top = kDefaultTop;
  if (invocation.Has("--top") && (!ParseNumber(invocation.Get("--top"), top) || top < 1))
    return Error{Code::kUsage, "--top takes a number above 0, not '" + invocation.Get("--top") + "'", ""};
  bool is_partial = false;
  if (invocation.directory.empty()) {
    if (!invocation.target.has_value())
      return Error{Code::kUsage, "--gpu looks into one process, or a snapshot in a file",
                   "name it: probing -t PID memory --gpu"};
    ASSIGN_OR_RETURN(is_partial, TakeSnapshot(invocation));
  }
  Json report = Json::object();
  ASSIGN_OR_RETURN(report["devices"], RowsOf(invocation, kDevicesSql));
  ASSIGN_OR_RETURN(report["failed"], RowsOf(invocation, kFailedSql));
  ASSIGN_OR_RETURN(report["holders"], RowsOf(invocation, kHoldersSql + std::to_string(top)));
  Print(invocation.Has("--json") ? FormatJson(report) : ReportText(report));
  return is_partial ? static_cast<int>(Code::kPartial) : 0;
}

}  // namespace probing::cli
