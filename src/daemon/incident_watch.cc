#include "daemon/incident_watch.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/new_file.h"
#include "daemon/diagnosis.h"
#include "daemon/incident.h"
#include "daemon/log.h"
#include "history/folders.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

constexpr auto kLook = std::chrono::seconds(5);
constexpr std::int64_t kLeastGapNs = 60'000'000'000;
constexpr std::string_view kPrefix = "incident-";
constexpr std::string_view kSuffix = ".incident";

bool IsHang(const std::string& class_name) {
  return class_name == "hang" || class_name == "collective_hang" || class_name == "collective_mismatch";
}

// The same thing about the same processes; its evidence has times in it.
std::string KeyOf(const Json& finding) {
  return finding["class"].dump() + finding["job"].dump() + finding["host"].dump() + finding["ranks"].dump() +
         finding["pids"].dump();
}

// Names sort by time.
std::string NameOf(const std::string& class_name) {
  const std::int64_t now_ns = WallNs();
  const std::time_t now = now_ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02dZ-", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return std::string(kPrefix) + text + class_name + std::string(kSuffix);
}

// Leaves room for one more of `most`.
void RemoveOldest(const std::string& directory, std::size_t most) {
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return;
  std::vector<std::string> ours;
  for (const std::string& name : *names) {
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) ours.push_back(name);
  }
  std::ranges::sort(ours);
  for (std::size_t i = 0; i + most <= ours.size(); ++i) unlink((directory + "/" + ours[i]).c_str());
}

}  // namespace

void IncidentWatch::Watch() { asio::co_spawn(daemon_.io, Run(), asio::detached); }

std::string IncidentWatch::Directory() const {
  if (const std::string_view set = daemon_.settings.Get("probing.incident.dir"); !set.empty())
    return std::string(set);
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/')
    return std::string(data) + "/probing/incidents";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/probing/incidents"
                                         : "/var/tmp/probing/incidents";
}

bool IncidentWatch::IsWanted(const std::string& class_name) const {
  const std::string_view on = daemon_.settings.Get("probing.incident.on");
  return (on.find("hang") != std::string_view::npos && IsHang(class_name)) ||
         (on.find("death") != std::string_view::npos && class_name == "first_death");
}

asio::awaitable<void> IncidentWatch::Run() {
  asio::steady_timer timer(daemon_.io);
  while (true) {
    timer.expires_after(kLook);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (daemon_.settings.Get("probing.incident.on") == "none" || daemon_.targets.Known().empty()) {
      known_.clear();
      continue;
    }
    try {
      co_await Look();
    } catch (const std::exception& e) {
      Log(LogLevel::kError, std::string("looking for incidents: ") + e.what());
    }
  }
}

asio::awaitable<void> IncidentWatch::Look() {
  server::Request request;
  request.path = "incident";
  const Result<Json> diagnosis = co_await Diagnose(daemon_, request);
  if (!diagnosis.ok()) co_return;
  for (auto& [key, is_there] : known_) is_there = false;
  for (const Json& finding : (*diagnosis)["findings"]) {
    if (!IsWanted(finding["class"].get<std::string>())) continue;
    const std::string key = KeyOf(finding);
    if (const auto known = known_.find(key); known != known_.end()) {
      known->second = true;
      continue;
    }
    // Later, if it is still there.
    if (last_ns_ != 0 && MonotonicNs() - last_ns_ < kLeastGapNs) continue;
    // What cannot be written (its processes are gone, the disk is full) is not tried again for the same
    // finding.
    if (co_await Write(finding)) last_ns_ = MonotonicNs();
    known_[key] = true;
  }
  std::erase_if(known_, [](const auto& each) { return !each.second; });
}

asio::awaitable<bool> IncidentWatch::Write(const Json& finding) {
  const std::string class_name = finding["class"].get<std::string>();
  IncidentRequest request;
  if (finding["job"].is_string()) request.job = finding["job"].get<std::string>();
  if (request.job == "local") request.job.clear();
  request.max_bytes = static_cast<std::uint64_t>(daemon_.settings.GetNumber("probing.incident.size"));
  request.reason = class_name;
  const Result<std::string> incident = co_await CollectIncident(daemon_, request);
  if (!incident.ok()) {
    Log(LogLevel::kError, "no incident was written: " + incident.error().message);
    co_return false;
  }
  const std::string directory = Directory();
  const auto most = static_cast<std::size_t>(daemon_.settings.GetNumber("probing.incident.files"));
  const std::string path = directory + "/" + NameOf(class_name);
  const Result<void> written = co_await Aside(daemon_, [&]() -> Result<void> {
    RETURN_IF_ERROR(history::MakeFolders("", directory.substr(1)));
    RemoveOldest(directory, most);
    return WriteNewFile(path, *incident);
  });
  if (!written.ok()) {
    Log(LogLevel::kError, "no incident was written: " + written.error().message);
    co_return false;
  }
  Log(LogLevel::kWarn, class_name + ": an incident was written to " + path);
  co_return true;
}

}  // namespace probing::daemon
