#include "cli/target.h"

#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"

namespace probing::cli {
namespace {

// host:port, ip:port and [v6]:port.
bool IsAddress(std::string_view word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !IsNumber(word.substr(colon + 1))) return false;
  const std::string_view host = word.substr(0, colon);
  if (host.front() == '[') return host.back() == ']';
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

// What kind of target it is that only later versions serve; "" for none.
std::string_view LaterKind(std::string_view word) {
  if (word.starts_with("unix:")) return "socket paths";
  if (word.starts_with("rank:")) return "ranks";
  if (word.find("://") != std::string_view::npos) return "stores";
  if (IsAddress(word)) return "network addresses";
  return "";
}

}  // namespace

bool LooksLikeTarget(std::string_view word) {
  if (word.find_first_of(" =") != std::string_view::npos) return false;
  return IsNumber(word) || LooksLikeDirectory(word) || !LaterKind(word).empty();
}

bool LooksLikeDirectory(std::string_view word) {
  return word == "." || word == ".." || word.starts_with('/') || word.starts_with("./") ||
         word.starts_with("../");
}

Result<std::string> ParseDirectory(std::string_view word) {
  const std::string text(word);
  char path[PATH_MAX];
  if (realpath(text.c_str(), path) == nullptr) return ErrnoError("look at the directory " + text);
  struct stat info{};
  if (stat(path, &info) != 0) return ErrnoError("look at the directory " + text);
  if (!S_ISDIR(info.st_mode))
    return Error{Code::kUsage, text + " is not a directory",
                 "history is a directory (PROBING_DATA_DIR) with job=… in it"};
  return std::string(path);
}

Result<pid_t> ParseTarget(std::string_view word) {
  const std::string text(word);
  if (const std::string_view kind = LaterKind(word); !kind.empty()) {
    return Error{Code::kUsage, "the target " + text + " is not served by probing " PROBING_VERSION,
                 std::string(kind) + " come with a later version; a target is a pid for now"};
  }
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || end != text.data() + text.size() || pid <= 0) {
    return Error{Code::kUsage, "\"" + text + "\" is not a target",
                 "a target is a pid, as in `probing -t 1234 status`"};
  }
  return pid;
}

}  // namespace probing::cli
