#include "cli/target.h"

#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "wire/store_url.h"

namespace probing::cli {
namespace {

constexpr std::string_view kUnix = "unix:";

// "rank:3", "job" and "job:NAME".
std::optional<TargetName> ParseJob(std::string_view word) {
  TargetName name;
  if (word == "job") {
    name.job = "";
    return name;
  }
  if (word.starts_with("job:") && word.size() > 4) {
    name.job = std::string(word.substr(4));
    return name;
  }
  if (!word.starts_with("rank:") || !IsNumber(word.substr(5)) || word.size() > 20) return std::nullopt;
  std::int64_t rank = 0;
  std::from_chars(word.data() + 5, word.data() + word.size(), rank);
  name.rank = rank;
  return name;
}

std::optional<pid_t> ParsePid(std::string_view text) {
  pid_t pid = 0;
  if (!IsNumber(text) || !ParseNumber(text, pid) || pid <= 0) return std::nullopt;
  return pid;
}

// "host:port/1234" without the pid, which is put into `name`. "/path/x.sock" has none.
std::string_view TakePid(std::string_view word, TargetName& name) {
  const std::size_t slash = word.rfind('/');
  if (slash == std::string_view::npos) return word;
  name.pid = ParsePid(word.substr(slash + 1));
  return name.pid ? word.substr(0, slash) : word;
}

std::optional<TargetName> ParseEndpoint(std::string_view word) {
  TargetName name;
  const std::string_view place = TakePid(word, name);
  if (place.starts_with(kUnix) && place.size() > kUnix.size()) {
    name.endpoint = Endpoint{std::nullopt, std::string(place.substr(kUnix.size()))};
    return name;
  }
  // A port alone would be a pid.
  if (place.find(':') == std::string_view::npos || place.starts_with(':') || place.starts_with('*'))
    return std::nullopt;
  Result<wire::Address> address = wire::ParseAddress(place);
  if (!address.ok()) return std::nullopt;
  name.endpoint = Endpoint{std::move(*address), ""};
  return name;
}

}  // namespace

bool LooksLikeTarget(std::string_view word) {
  if (wire::LooksLikeStore(word)) return true;
  if (word.find_first_of(" =") != std::string_view::npos) return false;
  return IsNumber(word) || LooksLikeDirectory(word) || ParseJob(word).has_value() ||
         ParseEndpoint(word).has_value();
}

bool LooksLikeDirectory(std::string_view word) {
  return word == "." || word == ".." || word.starts_with('/') || word.starts_with("./") ||
         word.starts_with("../") || word.ends_with(".json") || word.ends_with(".json.gz") ||
         word.ends_with(".pickle") || word.ends_with(".pkl") || word.ends_with(".incident");
}

Result<std::string> ParseDirectory(std::string_view word) {
  const std::string text(word);
  char path[PATH_MAX];
  if (realpath(text.c_str(), path) == nullptr) return ErrnoError("look at " + text);
  struct stat info{};
  if (stat(path, &info) != 0) return ErrnoError("look at " + text);
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
    return Error{
        Code::kUsage, text + " is neither a directory nor a file",
        "a directory has history (PROBING_DATA_DIR, with job=… in it) or Flight Recorder's files "
        "(_dump_RANK), a file is an incident, a trace of torch.profiler or a snapshot of torch.cuda.memory"};
  return std::string(path);
}

Result<TargetName> ParseTarget(std::string_view word) {
  const std::string text(word);
  if (word.find("://") != std::string_view::npos)
    return Error{Code::kUsage, "\"" + wire::WithoutPassword(word) + "\" is not a target",
                 "a store is written as clickhouse://HOST:8123/DATABASE"};
  if (const std::optional<pid_t> pid = ParsePid(word)) return TargetName{std::nullopt, pid, {}, {}};
  if (std::optional<TargetName> name = ParseJob(word)) return std::move(*name);
  if (std::optional<TargetName> name = ParseEndpoint(word)) return std::move(*name);
  if (word.ends_with(".py") && word.size() > 3) {
    TargetName name;
    name.script = text;
    return name;
  }
  return Error{Code::kUsage, "\"" + text + "\" is not a target",
               "a target is a pid, rank:N, train.py or HOST:PORT, as in `probing -t 1234 status`"};
}

}  // namespace probing::cli
