// probing skills: playbooks for coding agents, written where those look for them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "skills/documents.h"

namespace probing::cli {
namespace {

constexpr const char* kDirectory = ".claude/skills";
constexpr std::string_view kMark = "<!-- written by `probing skills install`: ";
constexpr std::string_view kMarkEnd = " -->\n";
constexpr std::string_view kAgentsBegin = "<!-- probing skills: begin -->\n";
constexpr std::string_view kAgentsEnd = "<!-- probing skills: end -->\n";

// FNV-1a, in hexadecimal: says whether somebody has changed a text, and nothing more.
std::string HashOf(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::array<char, 24> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  return hex.data();
}

// The text with a last line by which it is known again as ours.
std::string Marked(std::string_view text) {
  return std::string(text) + "\n" + std::string(kMark) + HashOf(text) + std::string(kMarkEnd);
}

// Whether it is what some version of ours has written, as it was written.
bool IsOurs(std::string_view text) {
  const std::size_t at = text.rfind(kMark);
  return at != std::string_view::npos && at > 0 && Marked(text.substr(0, at - 1)) == text;
}

Result<void> MakeDirectories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); true; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) return ErrnoError("make the folder " + part);
    if (slash == std::string::npos) return {};
  }
}

// All of it or nothing: readers never see half a file.
Result<void> Replace(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".probing-new";
  ScopedFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.valid()) return ErrnoError("write " + temporary);
  Result<void> written = WriteAll(fd.get(), text);
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0) written = ErrnoError("write " + path);
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

enum class State { kNew, kCurrent, kOld, kChanged };

Result<State> StateOf(const std::string& path, std::string_view wanted) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return State::kNew;
    return ErrnoError("look at " + path);
  }
  if (!S_ISREG(info.st_mode)) return State::kChanged;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  if (text == wanted) return State::kCurrent;
  return IsOurs(text) ? State::kOld : State::kChanged;
}

Json ListSkills() {
  Json list = Json::array();
  for (const skills::Document& skill : skills::Skills())
    list.push_back({{"name", skill.name}, {"description", skills::HeaderOf(skill, "description")}});
  return list;
}

// What AGENTS.md says: which skills there are, and where.
std::string AgentsSection(const std::string& directory) {
  std::string text(kAgentsBegin);
  text +=
      "## Running Python and PyTorch processes\n\n`probing` looks into running processes: hangs, slow steps, "
      "leaks, NaN. "
      "Before debugging one, read the playbook that fits:\n\n";
  for (const skills::Document& skill : skills::Skills()) {
    text.append("- `").append(directory).append("/").append(skill.name).append("/SKILL.md`: ");
    text.append(skills::HeaderOf(skill, "description")).append("\n");
  }
  return text.append(kAgentsEnd);
}

// The section is put in, or in the place of the one that is there; all else stays.
Result<void> WriteAgentsFile(const std::string& path, const std::string& section) {
  std::string text;
  if (access(path.c_str(), F_OK) == 0) {
    ASSIGN_OR_RETURN(text, ReadFile(path));
  }
  const std::size_t begin = text.find(kAgentsBegin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(kAgentsEnd, begin);
  std::string changed = text;
  if (end != std::string::npos) {
    changed.replace(begin, end + kAgentsEnd.size() - begin, section);
  } else {
    if (!changed.empty()) changed += changed.ends_with('\n') ? "\n" : "\n\n";
    changed += section;
  }
  return changed == text ? Result<void>() : Replace(path, changed);
}

Result<int> Install(const Invocation& invocation) {
  std::string directory = invocation.Has("--dir") ? invocation.Get("--dir") : kDirectory;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  if (directory.empty()) return Error{Code::kUsage, "--dir takes a folder", ""};
  Json report = Json::array();
  std::string kept;
  for (const skills::Document& skill : skills::Skills()) {
    const std::string folder = directory + "/" + std::string(skill.name);
    const std::string path = folder + "/SKILL.md";
    const std::string wanted = Marked(skill.text);
    RETURN_IF_ERROR(MakeDirectories(folder));
    ASSIGN_OR_RETURN(const State state, StateOf(path, wanted));
    const bool stays = state == State::kChanged && !invocation.Has("--force");
    if (stays) kept += (kept.empty() ? "" : ", ") + path;
    if (!stays && state != State::kCurrent) RETURN_IF_ERROR(Replace(path, wanted));
    const char* what = stays                      ? "kept: it was changed"
                       : state == State::kCurrent ? "up to date"
                       : state == State::kNew     ? "written"
                                                  : "updated";
    report.push_back({{"name", skill.name}, {"path", path}, {"state", what}});
  }
  if (invocation.Has("--agents"))
    RETURN_IF_ERROR(WriteAgentsFile(invocation.Get("--agents"), AgentsSection(directory)));
  if (invocation.Has("--json")) {
    Print(FormatJson(report));
  } else {
    for (const Json& each : report)
      Print(each["path"].get<std::string>() + ": " + each["state"].get<std::string>() + "\n");
  }
  if (kept.empty()) return 0;
  return Error{Code::kFailed, "not overwritten, because they were changed by hand: " + kept,
               "`probing skills install --force` replaces them"};
}

Result<int> Run(const Invocation& invocation) {
  if (!invocation.arguments.empty() && invocation.arguments[0] == "install") return Install(invocation);
  if (!invocation.arguments.empty()) {
    return Error{Code::kUsage, "skills: \"" + invocation.arguments[0] + "\" is not something it does",
                 "`probing skills` lists them, `probing skills install` writes them"};
  }
  for (const char* option : {"--dir", "--agents", "--force"}) {
    if (invocation.Has(option))
      return Error{Code::kUsage, std::string(option) + " goes with `probing skills install`", ""};
  }
  const Json list = ListSkills();
  if (invocation.Has("--json")) {
    Print(FormatJson(list));
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& skill : list)
    rows.push_back({skill["name"].get<std::string>(), skill["description"].get<std::string>()});
  Print(FormatTable({"SKILL", "DESCRIPTION"}, rows));
  return 0;
}

}  // namespace

Command SkillsCommand() {
  return {.name = "skills",
          .summary = "List or install playbooks for coding agents (SKILL.md): hang, slow training, leak, NaN",
          .example = "probing skills install",
          .only_here = true,
          .arguments = Arguments::kOne,
          .options = {{"WORD", "", "install writes them"},
                      {"--dir", "DIR", "with install: the folder they go to (.claude/skills)"},
                      {"--agents", "FILE", "with install: also a section of this file, as in AGENTS.md"},
                      {"--force", "", "with install: also over files that were changed by hand"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
