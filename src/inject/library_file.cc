#include "inject/library_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "arch/native.h"

namespace probing::inject {
namespace {

constexpr std::size_t kMaxLibraryBytes = 256U << 20;
constexpr unsigned kRehearsalSeconds = 10;

bool Within(std::string_view content, std::uint64_t offset, std::uint64_t size) {
  return offset <= content.size() && size <= content.size() - offset;
}

}  // namespace

Result<void> CheckLibrary(const std::string& path, std::string_view content) {
  Elf64_Ehdr header{};
  if (content.size() >= sizeof(header)) std::memcpy(&header, content.data(), sizeof(header));
  const bool is_library = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                          header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_DYN &&
                          header.e_machine == arch::kElfMachine && header.e_phentsize == sizeof(Elf64_Phdr);
  if (!is_library || content.size() > kMaxLibraryBytes) {
    return Error{Code::kFailed, path + " is not an " + arch::kName + " shared library",
                 "name one with --dll"};
  }
  const Error damaged{Code::kFailed, path + " is damaged: it ends before its contents do",
                      "install it again"};
  if (!Within(content, header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) return damaged;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, content.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (!Within(content, segment.p_offset, segment.p_filesz)) return damaged;
  }
  return {};
}

Result<void> Rehearse(const std::string& path) {
  const pid_t child = fork();
  if (child < 0) return ErrnoError("fork to try the library");
  if (child == 0) {
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, fd);
    setenv("PROBING_DISABLE", "1", 1);  // it is not this process that is to be probed
    alarm(kRehearsalSeconds);
    dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFSIGNALED(status)) return {};
  return Error{Code::kFailed,
               path + " crashes the process that loads it (" + strsignal(WTERMSIG(status)) +
                   "), tried in one of our own",
               "the target was not touched"};
}

}  // namespace probing::inject
