#include "daemon/tokens.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace {

using server::Right;

constexpr std::array kRights{Right::kRead, Right::kProfile, Right::kEval};

// A line for each right, "read 0123…".
std::string MakeTokens() {
  std::string text;
  for (const Right right : kRights)
    text += std::string(server::RightName(right)) + " " + server::MakeSecret() + "\n";
  return text;
}

Result<std::string> ReadOrMake(const std::string& path) {
  if (Result<std::string> text = ReadFile(path); text.ok() && !text->empty()) return text;
  // Whole or not at all: another program may read it at this moment.
  const std::string hidden = path + "." + std::to_string(getpid());
  const std::string text = MakeTokens();
  {
    const ScopedFd file(open(hidden.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoError("write " + hidden);
    RETURN_IF_ERROR(WriteAll(file.get(), text));
  }
  if (rename(hidden.c_str(), path.c_str()) != 0) return ErrnoError("write " + path);
  return text;
}

// "secret", which allows everything, or "read:secret,eval:secret".
std::vector<std::pair<Right, std::string>> ParseTokens(std::string_view variable) {
  std::vector<std::pair<Right, std::string>> tokens;
  while (!variable.empty()) {
    std::string_view one = TakePart(variable, ',');
    Right right = Right::kEval;
    const std::size_t colon = one.find(':');
    const auto named = server::RightFromName(one.substr(0, std::min(colon, one.size())));
    if (colon != std::string_view::npos && named && *named != Right::kNone && *named != Right::kOwn) {
      right = *named;
      one.remove_prefix(colon + 1);
    }
    tokens.emplace_back(right, one);
  }
  return tokens;
}

std::string_view Variable() {
  const char* variable = std::getenv("PROBING_TOKEN");
  return variable != nullptr ? variable : "";
}

}  // namespace

Result<void> AdoptTokens(server::Access& access, std::string_view variable) {
  for (const auto& [right, token] : ParseTokens(variable)) RETURN_IF_ERROR(access.AddToken(right, token));
  return {};
}

ShownToken TokenForOthers() {
  ShownToken shown;
  for (auto& [right, token] : ParseTokens(Variable())) {
    if (shown.text.empty() || right < shown.right) shown = {right, std::move(token)};
  }
  return shown;
}

Result<void> LoadTokens(server::Access& access) {
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareRuntimeDirectory());
  ASSIGN_OR_RETURN(const std::string text, ReadOrMake(directory + "/token"));
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = TakePart(rest, '\n');
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto right = server::RightFromName(line.substr(0, space));
    if (right) RETURN_IF_ERROR(access.SetToken(*right, std::string(line.substr(space + 1))));
  }
  for (const auto& [right, token] : ParseTokens(Variable())) RETURN_IF_ERROR(access.SetToken(right, token));
  return {};
}

}  // namespace probing::daemon
