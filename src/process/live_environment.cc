#include "process/live_environment.h"

#include <array>
#include <cstdint>
#include <vector>

#include "process/elf_image.h"

namespace probing::process {
namespace {

constexpr std::size_t kMaxVariables = 4096;
constexpr std::size_t kMaxVariableBytes = 4096;  // a longer one is cut

// A program that was linked to a fixed address has libc's variable among its own.
bool MayHaveVariable(const Maps::Object& object, bool is_first) {
  return is_first || BaseName(object.path).starts_with("libc.so") ||
         BaseName(object.path).starts_with("libc-");
}

Result<RemoteAddress> FindVariable(const Memory& memory, const Maps& maps) {
  bool is_first = true;
  for (const Maps::Object& object : maps.Objects()) {
    const bool may_have_it = MayHaveVariable(object, is_first);
    is_first = false;
    if (!may_have_it) continue;
    const Result<ElfImage> image = ElfImage::Load(memory, {object.base});
    if (!image.ok()) continue;
    for (const char* name : {"environ", "__environ"}) {
      if (Result<RemoteAddress> found = image->FindSymbol(name); found.ok()) return found;
    }
  }
  return Error{Code::kNotFound, "the environment of the process was not found", ""};
}

}  // namespace

Result<std::string> LiveEnvironment(const Memory& memory, const Maps& maps) {
  ASSIGN_OR_RETURN(const RemoteAddress variable, FindVariable(memory, maps));
  ASSIGN_OR_RETURN(const std::uint64_t list, memory.ReadValue(variable.As<std::uint64_t>()));
  std::string environment;
  for (std::size_t i = 0; i < kMaxVariables; ++i) {
    const Result<std::uint64_t> entry =
        memory.ReadValue(RemotePtr<std::uint64_t>{list + i * sizeof(std::uint64_t)});
    if (!entry.ok() || *entry == 0) break;
    const Result<std::string> text = memory.ReadCString({*entry}, kMaxVariableBytes);
    if (text.ok()) environment.append(*text).push_back('\0');
  }
  return environment;
}

}  // namespace probing::process
