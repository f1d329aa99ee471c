#include "cli/source_text.h"

#include <unistd.h>

#include <array>

#include "base/file.h"

namespace probing::cli {
namespace {

Result<std::string> ReadStdin(std::string_view what) {
  std::string text;
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno != EINTR) return ErrnoError("read the " + std::string(what) + " from stdin");
    if (n == 0) return text;
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<std::string> SourceText(const Invocation& invocation, std::string_view command, std::string_view what,
                               std::string_view example) {
  const bool has_argument = !invocation.arguments.empty();
  if (has_argument == invocation.Has("--file")) {
    const std::string name(command);
    return Error{Code::kUsage,
                 has_argument
                     ? name + " takes its " + std::string(what) + " as an argument or by --file, not both"
                     : name + " needs " + std::string(what) + " to run",
                 "for example `" + std::string(example) + "`"};
  }
  if (invocation.Has("--file")) {
    Result<std::string> text = ReadFile(invocation.Get("--file"));
    if (!text.ok()) text.error().code = Code::kUsage;
    return text;
  }
  if (invocation.arguments[0] == "-") return ReadStdin(what);
  return invocation.arguments[0];
}

}  // namespace probing::cli
