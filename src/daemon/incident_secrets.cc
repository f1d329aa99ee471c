#include "daemon/incident_secrets.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace probing::daemon {
namespace {

constexpr std::size_t kShortest = 8;  // what is shorter is as likely a word as a secret

bool SoundsSecret(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kEndings{
      "TOKEN",  "TOKENS",  "SECRET",     "SECRETS",    "PASSWORD", "PASSWD",      "PASS",
      "APIKEY", "API_KEY", "ACCESS_KEY", "SECRET_KEY", "AUTH",     "PRIVATE_KEY", "CREDENTIALS"};
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return upper.ends_with(ending); });
}

// "read:secret,eval:secret" has two of them, and is one itself.
void AddValue(std::string_view value, std::set<std::string>& secrets) {
  if (value.size() >= kShortest) secrets.emplace(value);
  while (!value.empty()) {
    std::string_view part = TakePart(value, ',');
    if (part.size() >= kShortest) secrets.emplace(part);
    part.remove_prefix(std::min(part.find(':') + 1, part.size()));
    if (part.size() >= kShortest) secrets.emplace(part);
  }
}

void AddEnvironment(pid_t pid, std::set<std::string>& secrets) {
  const Result<std::string> environment = ReadFile("/proc/" + std::to_string(pid) + "/environ");
  if (!environment.ok()) return;
  for (std::string_view rest = *environment; !rest.empty();) {
    std::string_view value = TakePart(rest, '\0');
    const std::string_view name = TakePart(value, '=');
    if (SoundsSecret(name)) AddValue(value, secrets);
  }
}

}  // namespace

std::vector<std::string> FindSecrets(const std::vector<std::string>& tokens, const std::set<pid_t>& pids) {
  std::set<std::string> secrets;
  for (const std::string& token : tokens) AddValue(token, secrets);
  AddEnvironment(getpid(), secrets);
  for (const pid_t pid : pids) AddEnvironment(pid, secrets);
  std::vector<std::string> sorted(secrets.begin(), secrets.end());
  std::ranges::sort(sorted, std::ranges::greater(), &std::string::size);
  return sorted;
}

}  // namespace probing::daemon
