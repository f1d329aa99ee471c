#include "process/core_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "arch/machine.h"
#include "arch/native.h"
#include "process/core_memory.h"
#include "process/core_notes.h"

namespace probing::process {
namespace {

constexpr std::uint64_t kMaxNotesBytes = 256ULL << 20U;  // 100,000 threads need 250 MB
constexpr std::uint64_t kMaxSegments = 1U << 22U;        // mappings; the kernel's default limit is 65530
constexpr std::size_t kComparedBytes = 4096;

Error NoCore(const std::string& path, const std::string& why) {
  return {Code::kFailed, path + " is not a core file: " + why, ""};
}

template <typename T>
Result<T> ReadStruct(const RandomAccessFile& file, std::uint64_t offset) {
  T value{};
  RETURN_IF_ERROR(file.Read(offset, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

Result<Elf64_Ehdr> ReadHeader(const RandomAccessFile& file) {
  const auto header = ReadStruct<Elf64_Ehdr>(file, 0);
  if (!header.ok()) return NoCore(file.path(), "it is too short");
  if (!std::equal(header->e_ident, header->e_ident + SELFMAG, ELFMAG))
    return NoCore(file.path(), "it is no ELF file");
  if (header->e_type != ET_CORE) return NoCore(file.path(), "it is a program or a library");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || arch::NameOf(header->e_machine) == nullptr) {
    return Error{Code::kFailed,
                 file.path() + " is the core of another architecture: only x86-64 and arm64 are read", ""};
  }
  if (header->e_phentsize != sizeof(Elf64_Phdr)) return NoCore(file.path(), "its headers have a wrong size");
  return *header;
}

Result<std::vector<Elf64_Phdr>> ReadSegments(const RandomAccessFile& file, const Elf64_Ehdr& header) {
  std::uint64_t count = header.e_phnum;
  if (count == PN_XNUM) {  // does not fit: the number is in the first section's header
    ASSIGN_OR_RETURN(const auto section, ReadStruct<Elf64_Shdr>(file, header.e_shoff));
    count = section.sh_info;
  }
  if (count > kMaxSegments || count > file.size_bytes() / sizeof(Elf64_Phdr)) {
    return NoCore(file.path(), "it is shorter than its own headers");
  }
  std::vector<Elf64_Phdr> segments(count);
  if (!file.Read(header.e_phoff, std::as_writable_bytes(std::span(segments))).ok()) {
    return NoCore(file.path(), "it ends within its headers");
  }
  return segments;
}

Result<CoreNotes> ReadNotes(const RandomAccessFile& file, const std::vector<Elf64_Phdr>& segments) {
  CoreNotes notes;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_offset >= file.size_bytes()) continue;
    const std::uint64_t available = file.size_bytes() - segment.p_offset;
    std::vector<std::byte> bytes(std::min({segment.p_filesz, available, kMaxNotesBytes}));
    RETURN_IF_ERROR(file.Read(segment.p_offset, bytes));
    ParseCoreNotes(bytes, notes);
  }
  return notes;
}

// A mapping and where its bytes are.
struct Part {
  Mapping mapping;
  CoreRegion region;
};

Part MakePart(std::uint64_t start, std::uint64_t end, const CoreNotes::File* file) {
  Part part;
  part.mapping.start = part.region.start = start;
  part.mapping.end = part.region.end = end;
  if (file != nullptr) {
    part.mapping.path = part.region.path = file->path;
    part.mapping.file_offset = part.region.file_offset = file->offset + (start - file->start);
  }
  return part;
}

// All segments, and the mapped files that have none (gcore leaves those out). Ascending; of parts
// that overlap, the first stays.
std::vector<Part> CollectParts(const std::vector<Elf64_Phdr>& segments, CoreNotes& notes) {
  const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
  std::sort(notes.files.begin(), notes.files.end(), by_start);
  std::vector<Part> parts;
  for (const Elf64_Phdr& segment : segments) {
    std::uint64_t end = 0;
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    if (__builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end)) continue;
    auto next = std::upper_bound(notes.files.begin(), notes.files.end(), segment.p_vaddr,
                                 [](std::uint64_t a, const CoreNotes::File& file) { return a < file.start; });
    const bool is_file = next != notes.files.begin() && segment.p_vaddr < std::prev(next)->end;
    Part part = MakePart(segment.p_vaddr, end, is_file ? &*std::prev(next) : nullptr);
    part.mapping.readable = (segment.p_flags & PF_R) != 0;
    part.mapping.writable = (segment.p_flags & PF_W) != 0;
    part.mapping.executable = (segment.p_flags & PF_X) != 0;
    part.region.core_offset = segment.p_offset;
    part.region.core_bytes = std::min<std::uint64_t>(segment.p_filesz, segment.p_memsz);
    parts.push_back(std::move(part));
  }
  for (const CoreNotes::File& file : notes.files) {
    parts.push_back(MakePart(file.start, file.end, &file));
    parts.back().mapping.readable = true;
    parts.back().mapping.executable = true;  // perhaps: code is what gcore leaves out most
  }
  // Stable: a segment comes before the file of the same start, which it replaces.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.mapping.start < b.mapping.start; });
  std::vector<Part> kept;
  for (Part& part : parts) {
    if (!kept.empty() && part.mapping.start < kept.back().mapping.end) continue;
    kept.push_back(std::move(part));
  }
  return kept;
}

bool IsFolder(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// True when the core's first page of the file is the file's, or when the core has none.
bool IsSameFile(const RandomAccessFile& core, const std::vector<Part>& parts, const RandomAccessFile& file,
                const std::string& path) {
  for (const Part& part : parts) {
    if (part.region.path != path || part.region.file_offset != 0) continue;
    std::array<std::byte, kComparedBytes> then{};
    std::array<std::byte, kComparedBytes> now{};
    const std::size_t count =
        std::min({part.region.core_bytes, file.size_bytes(), std::uint64_t{kComparedBytes}});
    if (!core.Read(part.region.core_offset, std::span(then).first(count)).ok()) continue;
    if (!file.Read(0, std::span(now).first(count)).ok() || then != now) return false;
  }
  return true;
}

// The files below a folder, wherever they are: a flat one, or a bundle by build-id. Found by their first
// bytes, which have the build-id, or by their names where the core has none of these.
class FolderFiles {
 public:
  explicit FolderFiles(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
    for (std::size_t seen = 0; !error && at != fs::recursive_directory_iterator() && seen < kMaxEntries;
         ++seen) {
      if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
      std::error_code ignored;
      if (at->is_regular_file(ignored)) paths_.push_back(at->path().string());
      at.increment(error);
    }
    std::sort(paths_.begin(), paths_.end());
  }

  // The file that was at `path`. kFailed: none is.
  Result<RandomAccessFile> Find(const RandomAccessFile& core, const std::vector<Part>& parts,
                                const std::string& path) const {
    const bool has_start = std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
      return part.region.path == path && part.region.file_offset == 0 && part.region.core_bytes > 0;
    });
    const std::string name = path.substr(path.rfind('/') + 1);
    for (const std::string& candidate : paths_) {
      if (!has_start && candidate.substr(candidate.rfind('/') + 1) != name) continue;
      auto file = RandomAccessFile::Open(candidate);
      if (file.ok() && file->size_bytes() > 0 && IsSameFile(core, parts, *file, path)) return file;
    }
    return Error{Code::kFailed, "no file below the folder is " + path, ""};
  }

 private:
  static constexpr std::size_t kMaxEntries = 20'000;
  static constexpr int kMaxDepth = 16;
  std::vector<std::string> paths_;
};

struct OpenedFiles {
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  std::vector<std::string> missing;
  std::map<std::string, std::string> places;
};

// Opens what is needed for the parts that the core leaves out, and points them to it.
OpenedFiles OpenMappedFiles(const RandomAccessFile& core, std::vector<Part>& parts,
                            const std::string& executable, std::uint64_t entry) {
  const bool is_folder = IsFolder(executable);
  std::string program;
  for (const Part& part : parts) {
    if (part.mapping.Contains(entry)) program = part.region.path;
  }
  OpenedFiles opened;
  std::optional<FolderFiles> folder;  // looked through when a file is not at its old path in it
  std::map<std::string, const RandomAccessFile*> known;
  for (Part& part : parts) {
    CoreRegion& region = part.region;
    if (region.path.empty() || region.core_bytes == region.end - region.start) continue;
    const auto [found, is_new] = known.try_emplace(region.path, nullptr);
    if (is_new) {
      const bool is_program = !executable.empty() && region.path == program;
      auto file = RandomAccessFile::Open(is_folder    ? executable + region.path
                                         : is_program ? executable
                                                      : region.path);
      if (is_folder && !(file.ok() && IsSameFile(core, parts, *file, region.path))) {
        if (!folder) folder.emplace(executable);
        file = folder->Find(core, parts, region.path);
      }
      if (file.ok() && IsSameFile(core, parts, *file, region.path)) {
        opened.places.emplace(region.path, file->path());
        opened.files.push_back(std::make_unique<RandomAccessFile>(std::move(*file)));
        found->second = opened.files.back().get();
      } else {
        opened.missing.push_back(region.path);
      }
    }
    region.file = found->second;
  }
  return opened;
}

}  // namespace

Result<CoreFile> CoreFile::Open(const std::string& path, const std::string& executable) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return Error{Code::kUsage, "there is no file " + path, ""};
  }
  auto file = RandomAccessFile::Open(path);
  if (!file.ok()) return std::move(file.error());
  ASSIGN_OR_RETURN(const Elf64_Ehdr header, ReadHeader(*file));
  ASSIGN_OR_RETURN(const std::vector<Elf64_Phdr> segments, ReadSegments(*file, header));
  ASSIGN_OR_RETURN(CoreNotes notes, ReadNotes(*file, segments));
  std::vector<Part> parts = CollectParts(segments, notes);
  OpenedFiles opened = OpenMappedFiles(*file, parts, executable, notes.entry);

  CoreFile core;
  core.pid = notes.pid != 0 || notes.tids.empty() ? notes.pid : notes.tids.front();
  core.tids = std::move(notes.tids);
  std::stable_partition(core.tids.begin(), core.tids.end(), [&](pid_t tid) { return tid == core.pid; });
  core.command = std::move(notes.command);
  if (header.e_machine != arch::kElfMachine) core.other_processor = arch::NameOf(header.e_machine);
  core.signal = SignalText(notes.signal);
  if (core.other_processor.empty()) core.registers = std::move(notes.registers);
  core.missing_files = std::move(opened.missing);
  core.found_files = std::move(opened.places);
  std::vector<Mapping> mappings;
  std::vector<CoreRegion> regions;
  for (Part& part : parts) {
    const CoreRegion& region = part.region;
    core.is_truncated |= region.core_offset > file->size_bytes() ||
                         region.core_bytes > file->size_bytes() - region.core_offset;
    mappings.push_back(std::move(part.mapping));
    regions.push_back(std::move(part.region));
  }
  core.maps = Maps::Of(std::move(mappings));
  core.memory = std::make_unique<CoreMemory>(std::move(*file), std::move(regions), std::move(opened.files));
  return core;
}

}  // namespace probing::process
