#include "cli/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/file.h"
#include "base/scoped_fd.h"

namespace probing::cli {
namespace {

constexpr std::size_t kMostEntries = 5000;

// $XDG_STATE_HOME/probing or ~/.local/state/probing; made if necessary. "" when there is no home.
std::string StateDirectory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::string directory;
  if (state != nullptr && *state == '/') {
    directory = state;
  } else if (home != nullptr && *home == '/') {
    directory = std::string(home) + "/.local";
    mkdir(directory.c_str(), 0700);
    directory += "/state";
  } else {
    return "";
  }
  mkdir(directory.c_str(), 0700);
  directory += "/probing";
  mkdir(directory.c_str(), 0700);
  return directory;
}

}  // namespace

std::string EscapeEntry(const std::string& entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line;
}

std::string UnescapeEntry(const std::string& line) {
  std::string entry;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      entry += line[i] == 'n' ? '\n' : line[i];
    } else {
      entry += line[i];
    }
  }
  return entry;
}

std::vector<std::string> LoadHistory(const std::string& name) {
  std::vector<std::string> entries;
  const Result<std::string> text = ReadFile(StateDirectory() + "/" + name);
  if (!text.ok()) return entries;
  std::size_t start = 0;
  while (start < text->size()) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    entries.push_back(UnescapeEntry(text->substr(start, end - start)));
    start = end + 1;
  }
  if (entries.size() > kMostEntries) {
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(kMostEntries));
  }
  return entries;
}

void AppendHistory(const std::string& name, const std::string& entry) {
  const std::string directory = StateDirectory();
  if (directory.empty()) return;
  const ScopedFd file(
      open((directory + "/" + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.valid()) (void)WriteAll(file.get(), EscapeEntry(entry) + "\n");
}

}  // namespace probing::cli
