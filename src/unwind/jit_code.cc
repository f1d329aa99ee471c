#include "unwind/jit_code.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "process/byte_memory.h"

namespace probing::unwind {
namespace {

using process::Memory;
using process::RemotePtr;

constexpr std::size_t kMaxFunctions = 1 << 20;
constexpr std::size_t kMaxMapBytes = 64 << 20;
constexpr std::size_t kMaxObjects = 1 << 14;
constexpr std::uint64_t kMaxObjectBytes = 16 << 20;
constexpr std::uint64_t kMaxAllObjectsBytes = 256 << 20;
constexpr std::uint64_t kMaxTableBytes = 4 << 20;
constexpr const char* kDescriptor = "__jit_debug_descriptor";

// As gdb's documentation declares them.
struct Descriptor {
  std::uint32_t version, action;
  std::uint64_t relevant, first;
};
struct Entry {
  std::uint64_t next, previous, object, object_bytes;
};

Error NotFound() { return {Code::kNotFound, "no unwind table for this code", ""}; }

// The last word of a line of /proc/PID/status: "NSpid:\t812\t12".
std::optional<long> LastNumber(std::string_view status, std::string_view key) {
  std::size_t at = status.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view line = status.substr(at, status.find('\n', at + 1) - at);
  line.remove_prefix(std::min(line.size(), line.find_last_of("\t ") + 1));
  long number = 0;
  if (!ParseNumber(line, number)) return std::nullopt;
  return number;
}

// "" when there is none, or it belongs to somebody else, who could write anything into it.
std::string ReadPerfMap(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const auto status = ReadFile(process + "/status");
  if (!status.ok()) return "";
  const auto inner_pid = LastNumber(*status, "\nNSpid:");
  const auto user = LastNumber(*status, "\nUid:");  // that of its file accesses
  if (!inner_pid || !user) return "";
  const std::string path = process + "/root" + "/tmp/perf-" + std::to_string(*inner_pid) + ".map";
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat file{};
  if (!fd.valid() || fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) return "";
  if (file.st_uid != static_cast<uid_t>(*user)) return "";
  std::string text(std::min<std::size_t>(static_cast<std::size_t>(file.st_size), kMaxMapBytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = pread(fd.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return text;
}

}  // namespace

bool IsPythonTrampoline(std::string_view name) { return name.starts_with("py::"); }

void JitCode::Update(pid_t pid, Modules& modules, const FindFile& find_file, const Memory& memory) {
  functions_.clear();
  for (const auto& module : modules.all()) {
    if (const auto address = module->FindData(kDescriptor, find_file, memory))
      ReadDescriptor(*address, memory);
  }
  if (pid != 0) ParsePerfMap(ReadPerfMap(pid));
}

void JitCode::ParsePerfMap(std::string_view text) {
  while (!text.empty() && functions_.size() < kMaxFunctions) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t first = line.find(' ');
    const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
    if (second == std::string_view::npos) continue;
    std::uint64_t start = 0;
    std::uint64_t size = 0;
    if (!ParseNumber(line.substr(0, first), start, 16) ||
        !ParseNumber(line.substr(first + 1, second - first - 1), size, 16) || size == 0) {
      continue;
    }
    // The last one counts: memory is used again. What the JIT itself described has a table.
    Code& code = functions_[start];
    if (code.table_bytes == 0) code = {start + size, std::string(line.substr(second + 1)), 0, 0};
  }
}

void JitCode::ReadDescriptor(std::uint64_t address, const Memory& memory) {
  const auto descriptor = memory.ReadValue(RemotePtr<Descriptor>{address});
  if (!descriptor.ok() || descriptor->version != 1) return;
  std::uint64_t at = descriptor->first;
  std::uint64_t bytes_left = kMaxAllObjectsBytes;
  for (std::size_t i = 0; i < kMaxObjects && at != 0; ++i) {
    const auto entry = memory.ReadValue(RemotePtr<Entry>{at});
    if (!entry.ok() || entry->object_bytes > std::min(bytes_left, kMaxObjectBytes)) return;
    bytes_left -= entry->object_bytes;
    at = entry->next;
    std::vector<std::byte> bytes(entry->object_bytes);
    if (!memory.Read({entry->object}, bytes).ok()) continue;
    const auto object = ElfFile::Load(std::make_shared<process::ByteMemory>(0, bytes));
    if (object.ok()) AddObject(*object);
  }
}

void JitCode::AddObject(const ElfFile& object) {
  const Elf64_Shdr* symbols = object.Find(".symtab");
  if (symbols == nullptr || symbols->sh_link >= object.sections().size()) return;
  const Elf64_Shdr& strings = object.sections()[symbols->sh_link];
  const Section names(object.memory(), strings.sh_offset, strings.sh_size);
  const auto bytes = Section(object.memory(), symbols->sh_offset, symbols->sh_size).Read(0, symbols->sh_size);
  if (!bytes.ok()) return;
  const Elf64_Shdr* table = object.Find(".eh_frame");
  ByteReader reader(*bytes);
  while (!reader.AtEnd() && functions_.size() < kMaxFunctions) {
    const auto symbol = reader.Take<Elf64_Sym>();
    if (!reader.ok()) return;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx >= object.sections().size()) continue;
    const std::uint64_t section = object.sections()[symbol.st_shndx].sh_addr;
    if (section == 0 || symbol.st_size == 0) continue;
    const std::uint64_t start = section + symbol.st_value;
    if (FindSymbol(start)) continue;  // the newest object comes first: memory is used again
    functions_[start] = {start + symbol.st_size, names.ReadCString(symbol.st_name),
                         table != nullptr ? table->sh_addr : 0, table != nullptr ? table->sh_size : 0};
  }
}

std::optional<Symbol> JitCode::FindSymbol(std::uint64_t pc) const {
  const auto next = functions_.upper_bound(pc);
  if (next == functions_.begin() || pc >= std::prev(next)->second.end) return std::nullopt;
  return Symbol{std::prev(next)->second.name, std::prev(next)->first};
}

Result<Row> JitCode::FindRow(std::uint64_t pc, const Memory& memory) const {
  const auto next = functions_.upper_bound(pc);
  if (next == functions_.begin() || pc >= std::prev(next)->second.end) return NotFound();
  const auto& code = std::prev(next)->second;
  if (code.table_start == 0 || code.table_bytes == 0 || code.table_bytes > kMaxTableBytes) return NotFound();
  std::vector<std::byte> bytes(code.table_bytes);
  RETURN_IF_ERROR(memory.Read({code.table_start}, bytes));
  // Some functions: no index is needed.
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  std::optional<Cie> cie;
  for (std::size_t at = 0; at + 2 * kWord <= bytes.size();) {
    std::uint32_t size = 0;
    std::uint32_t cie_distance = 0;
    std::memcpy(&size, bytes.data() + at, kWord);
    std::memcpy(&cie_distance, bytes.data() + at + kWord, kWord);
    if (size < kWord || size > bytes.size() - at - kWord) break;
    const auto entry = std::span<const std::byte>(bytes).subspan(at + kWord, size);
    const std::uint64_t address = code.table_start + at + kWord;
    if (cie_distance == 0) {
      auto parsed = ParseCie(entry, address);
      cie = parsed.ok() ? std::optional(std::move(*parsed)) : std::nullopt;
    } else if (cie) {
      const auto fde = ParseFde(entry, address, *cie);
      if (fde.ok() && pc - fde->start < fde->size) return unwind::FindRow(*cie, *fde, pc);
    }
    at += kWord + size;
  }
  return NotFound();
}

}  // namespace probing::unwind
