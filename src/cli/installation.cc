#include "cli/installation.h"

#include <unistd.h>

#include <initializer_list>
#include <string_view>

#include "base/file.h"

namespace probing::cli {
namespace {

// /proc/self/exe, since argv[0] may be anything and `probe` is a link.
Result<std::string> FindBeside(const std::string& name, std::initializer_list<std::string_view> others) {
  ASSIGN_OR_RETURN(const std::string self, ReadLink("/proc/self/exe"));
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  if (access((folder + name).c_str(), R_OK) == 0) return folder + name;
  for (const std::string_view other : others) {
    const std::string path = folder + std::string(other) + "/" + name;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return Error{Code::kFailed, name + " is not beside " + self, "is the installation complete?"};
}

}  // namespace

bool IsProbeLibrary(const process::Mapping& mapping) {
  const std::string_view name = process::BaseName(mapping.path);
  return name.find("libprobing.so") != std::string_view::npos ||
         name.find("libprobe.so") != std::string_view::npos;
}

Result<std::string> FindLibrary() { return FindBeside("libprobing.so", {"../lib/probing", "../lib"}); }
Result<std::string> FindDaemon() { return FindBeside("probingd", {"../libexec"}); }

}  // namespace probing::cli
