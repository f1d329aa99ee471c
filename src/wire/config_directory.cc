#include "wire/config_directory.h"

#include <sys/stat.h>

#include <cstdlib>

namespace probing::wire {
namespace {

// The directory that ours is in.
std::string Parent() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config == '/') return config;
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.config" : "";
}

}  // namespace

std::string ConfigDirectory() {
  const std::string parent = Parent();
  return parent.empty() ? "" : parent + "/probing";
}

Result<std::string> PrepareConfigDirectory() {
  const std::string directory = ConfigDirectory();
  if (directory.empty()) return Error{Code::kFailed, "there is no home directory", "set HOME"};
  mkdir(Parent().c_str(), 0700);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoError("make " + directory);
  return directory;
}

}  // namespace probing::wire
