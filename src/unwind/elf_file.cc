#include "unwind/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/byte_reader.h"
#include "base/scoped_fd.h"
#include "process/byte_memory.h"
#include "unwind/decompress.h"

namespace probing::unwind {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kMaxReadBytes = 256 << 20;
constexpr std::uint64_t kMaxSectionNameBytes = 64;
constexpr std::uint64_t kMaxNamesBytes = 4 << 20;
constexpr std::size_t kMaxStringBytes = 16 << 10;
constexpr std::uint64_t kMaxNoteBytes = 4096;
constexpr std::uint64_t kMaxCompressedBytes = 256 << 20;
constexpr std::uint32_t kZstd = 2;  // ELFCOMPRESS_ZSTD, which older headers lack

Error Malformed(const char* what) { return {Code::kFailed, std::string("malformed ELF file: ") + what, ""}; }

class FileMemory final : public Memory {
 public:
  explicit FileMemory(ScopedFd fd) : fd_(std::move(fd)) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override {
    while (!out.empty()) {
      if (from.address > std::numeric_limits<off_t>::max()) return Malformed("offset");
      const ssize_t n = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(from.address));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return ErrnoError("read an object file", n < 0 ? errno : ENODATA);
      out = out.subspan(static_cast<std::size_t>(n));
      from = from + static_cast<std::uint64_t>(n);
    }
    return {};
  }

 private:
  ScopedFd fd_;
};

Result<Section> Decompress(const Section& section) {
  Elf64_Chdr header;
  ASSIGN_OR_RETURN(const auto bytes, section.Read(0, section.size()));
  if (bytes.size() < sizeof(header)) return Malformed("compressed section");
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto content = std::span(bytes).subspan(sizeof(header));
  if (header.ch_type != ELFCOMPRESS_ZLIB && header.ch_type != kZstd) return Malformed("unknown compression");
  ASSIGN_OR_RETURN(const auto out, header.ch_type == kZstd ? Unzstd(content, header.ch_size)
                                                           : Inflate(content, header.ch_size));
  return Section(std::make_shared<process::ByteMemory>(0, out), 0, out.size());
}

}  // namespace

Result<std::unique_ptr<const Memory>> OpenFileAsMemory(const std::string& path) {
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError("open " + path);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return ErrnoError("look at " + path);
  if (!S_ISREG(status.st_mode)) return Error{Code::kFailed, path + " is not a file", ""};
  return std::unique_ptr<const Memory>(std::make_unique<FileMemory>(std::move(fd)));
}

Result<std::vector<std::byte>> Section::Read(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) return Malformed("a section is too short");
  if (size > kMaxReadBytes) return Malformed("a section is too large");
  std::vector<std::byte> bytes(size);
  if (size > 0) RETURN_IF_ERROR(memory_->Read({start_ + offset}, bytes));
  return bytes;
}

Result<std::vector<std::byte>> Section::ReadUpTo(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_) return Malformed("a section is too short");
  return Read(offset, std::min(size, size_ - offset));
}

std::string Section::ReadCString(std::uint64_t offset) const {
  if (offset >= size_) return "";
  const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(kMaxStringBytes, size_ - offset));
  const auto text = memory_->ReadCString({start_ + offset}, most);
  return text.ok() ? *text : "";
}

Result<ElfFile> ElfFile::Load(std::shared_ptr<const Memory> file) {
  ElfFile elf;
  ASSIGN_OR_RETURN(const Elf64_Ehdr header, file->ReadValue(process::RemotePtr<Elf64_Ehdr>{0}));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
    return Malformed("no ELF file");
  }
  elf.segments_.resize(header.e_phnum);
  if (header.e_phnum != 0)
    RETURN_IF_ERROR(file->Read({header.e_phoff}, std::as_writable_bytes(std::span(elf.segments_))));
  elf.sections_.resize(header.e_shnum);
  if (header.e_shnum != 0)
    RETURN_IF_ERROR(file->Read({header.e_shoff}, std::as_writable_bytes(std::span(elf.sections_))));
  elf.memory_ = std::move(file);
  elf.names_.resize(elf.sections_.size());
  if (header.e_shstrndx >= elf.sections_.size()) return elf;
  const Elf64_Shdr& strings = elf.sections_[header.e_shstrndx];
  const Section names(elf.memory_, strings.sh_offset, strings.sh_size);
  // At once: a read of each would be a system call of each. LLVM keeps them among the names of symbols.
  std::uint64_t last = 0;
  for (const Elf64_Shdr& section : elf.sections_) last = std::max<std::uint64_t>(last, section.sh_name);
  const auto bytes = names.ReadUpTo(0, std::min(last + kMaxSectionNameBytes, kMaxNamesBytes));
  if (!bytes.ok()) return elf;
  for (std::size_t i = 0; i < elf.sections_.size(); ++i) {
    const std::size_t at = elf.sections_[i].sh_name;
    if (at >= bytes->size()) continue;
    ByteReader reader(std::span<const std::byte>(*bytes).subspan(at));
    elf.names_[i] = reader.TakeCString();
  }
  return elf;
}

Result<ElfFile> ElfFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(auto file, OpenFileAsMemory(path));
  return Load(std::move(file));
}

const Elf64_Shdr* ElfFile::Find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? nullptr : &sections_[static_cast<std::size_t>(found - names_.begin())];
}

Result<Section> ElfFile::OpenSection(std::string_view name) const {
  const Elf64_Shdr* found = Find(name);
  if (found == nullptr || found->sh_type == SHT_NOBITS)
    return Error{Code::kNotFound, "no section " + std::string(name), ""};
  Section section(memory_, found->sh_offset, found->sh_size);
  if ((found->sh_flags & SHF_COMPRESSED) == 0) return section;
  if (found->sh_size > kMaxCompressedBytes) return Malformed("a section is too large");
  return Decompress(section);
}

std::string ElfFile::BuildId() const {
  const auto section = OpenSection(".note.gnu.build-id");
  if (!section.ok()) return "";
  const auto bytes = section->ReadUpTo(0, kMaxNoteBytes);
  if (!bytes.ok()) return "";
  ByteReader reader(*bytes);
  const auto name_bytes = reader.Take<std::uint32_t>();
  const auto id_bytes = reader.Take<std::uint32_t>();
  const auto type = reader.Take<std::uint32_t>();
  if (type != NT_GNU_BUILD_ID || name_bytes != sizeof("GNU")) return "";
  (void)reader.TakeBytes(name_bytes);
  const auto id = reader.TakeBytes(id_bytes);
  return reader.ok() ? std::string(reinterpret_cast<const char*>(id.data()), id.size()) : "";
}

}  // namespace probing::unwind
