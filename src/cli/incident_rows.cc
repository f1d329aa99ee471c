#include "cli/incident_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "cli/daemon_client.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kPeriodNs = 1'000'000;  // weights of samples are told in milliseconds

constexpr const char* kSamplesSql =
    "SELECT s.pid, s.tid, coalesce(t.name, 'thread ' || s.tid), coalesce(p.name, ''), s.timestamp_ns,"
    " s.weight, s.on_cpu, s.has_gil, s.stack FROM python.samples AS s"
    " LEFT JOIN (SELECT host, pid, tid, any_value(thread_name) AS name FROM python.stacks GROUP BY ALL) AS t"
    " ON t.host = s.host AND t.pid = s.pid AND t.tid = s.tid"
    " LEFT JOIN (SELECT host, pid, any_value(name) AS name FROM probing.targets GROUP BY ALL) AS p"
    " ON p.host = s.host AND p.pid = s.pid ORDER BY s.host, s.rank, s.pid, s.timestamp_ns";

Result<Json> RowsOf(const std::string& file, const std::string& sql) {
  ASSIGN_OR_RETURN(const std::string answer, Query({.directory = file, .sql = sql, .format = "rows"}));
  Json parsed = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("rows") || !parsed["rows"].is_array())
    return Error{Code::kFailed, "probingd's answer is damaged", ""};
  return std::move(parsed["rows"]);
}

std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }
std::int64_t Number(const Json& value) { return value.is_number_integer() ? value.get<std::int64_t>() : 0; }

// "train (a.py);step (a.py)", the outermost first; what is in parentheses at the end is the file.
std::vector<flame::Frame> FramesOf(const std::string& stack) {
  std::vector<flame::Frame> frames;
  for (std::string_view rest = stack; !rest.empty();) {
    const std::string_view part = TakePart(rest, ';');
    const std::size_t open = part.ends_with(')') ? part.rfind(" (") : std::string_view::npos;
    flame::Frame frame;
    frame.function = part.substr(0, open);
    if (open != std::string_view::npos) frame.file = part.substr(open + 2, part.size() - open - 3);
    frames.push_back(std::move(frame));
  }
  std::ranges::reverse(frames);
  return frames;
}

}  // namespace

Result<std::vector<backtrace::RecordedProcess>> RecordedStacks(const std::string& file,
                                                               const backtrace::Options& options) {
  ASSIGN_OR_RETURN(const Json rows, RowsOf(file, backtrace::RecordedSql(options)));
  return backtrace::PicturesOf(rows, options);
}

Result<flame::Profile> RecordedSamples(const std::string& file) {
  ASSIGN_OR_RETURN(const Json rows, RowsOf(file, kSamplesSql));
  flame::Profile profile(kPeriodNs, {});
  std::map<std::pair<std::int64_t, std::int64_t>, flame::ThreadId> threads;
  for (const Json& row : rows) {
    const std::pair key{Number(row[0]), Number(row[1])};
    auto thread = threads.find(key);
    if (thread == threads.end()) {
      const flame::ThreadId id = profile.AddThread(
          {static_cast<pid_t>(key.first), static_cast<pid_t>(key.second), Text(row[2]), Text(row[3])});
      thread = threads.emplace(key, id).first;
    }
    flame::Sample sample;
    sample.start_ns = Number(row[4]);
    const double weight_s = row[5].is_number() ? row[5].get<double>() : 0;
    sample.ticks = static_cast<std::uint32_t>(std::clamp(weight_s * 1e9 / kPeriodNs + 0.5, 0.0, 4e9));
    sample.thread = thread->second;
    sample.on_cpu = row[6] == true;
    sample.has_gil = row[7] == true;
    if (sample.ticks > 0) profile.AddSample(sample, FramesOf(Text(row[8])));
  }
  return profile;
}

}  // namespace probing::cli
