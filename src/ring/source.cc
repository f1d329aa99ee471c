#include "ring/source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstring>
#include <string>

namespace probing::ring {
namespace {

// Newer than the headers of the glibc we build against.
constexpr int kGetSeals = 1034;           // F_GET_SEALS
constexpr int kSealShrink = 2;            // F_SEAL_SHRINK
constexpr long kTmpfsMagic = 0x01021994;  // not hugetlbfs, whose pages can be missing
constexpr std::uint64_t kMaxMapped = 1ULL << 40;
constexpr std::uint64_t kMaxCopied = 1ULL << 30;

bool CanBeMapped(int fd) {
  const int seals = fcntl(fd, kGetSeals);
  struct statfs info{};
  return seals >= 0 && (seals & kSealShrink) != 0 && fstatfs(fd, &info) == 0 && info.f_type == kTmpfsMagic;
}

Result<std::uint64_t> SizeOf(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrnoError("look at a ring");
  if (!S_ISREG(info.st_mode))
    return Error{Code::kFailed, "this is not a ring but a device or a directory", ""};
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

Result<void> CheckMemoryFile(int fd) {
  ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(fd));
  if (!CanBeMapped(fd)) return Error{Code::kFailed, "this is not a ring: it is no sealed memory file", ""};
  if (size > kMaxMapped) return Error{Code::kFailed, "a ring larger than any of ours", ""};
  return {};
}

void Source::Unmap::operator()(char* base) const { munmap(base, size); }

Result<Source> Source::Open(ScopedFd fd) {
  Source source;
  source.fd_ = std::move(fd);
  ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(source.fd_.get()));
  RETURN_IF_ERROR(CanBeMapped(source.fd_.get()) ? source.Map(size) : source.CopyAll(size));
  return source;
}

Source Source::FromBytes(const void* bytes, std::size_t size) {
  Source source;
  source.size_ = size;
  source.copy_.resize((size + 7) / 8);
  if (size != 0) std::memcpy(source.copy_.data(), bytes, size);
  return source;
}

Result<void> Source::Refresh() {
  if (!fd_.valid()) return {};
  ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(fd_.get()));
  if (!mapping_) return CopyAll(size);
  if (size == size_) return {};
  return Map(size);
}

std::uint64_t Source::allocated() const {
  struct stat info{};
  if (!mapping_ || fstat(fd_.get(), &info) != 0) return size_;
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

void Source::Grow() {
  if (!mapping_) return;
  if (Result<std::uint64_t> size = SizeOf(fd_.get()); size.ok() && *size > size_) {
    static_cast<void>(Map(*size).ok());  // what could not be mapped is not seen
  }
}

Result<void> Source::Map(std::uint64_t size) {
  if (size > kMaxMapped) {
    return Error{Code::kFailed, "a ring of " + std::to_string(size) + " bytes is larger than any of ours",
                 ""};
  }
  if (size == 0)
    return Error{Code::kFailed, "the ring is empty", "its process has only just begun: try again"};
  void* base = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) return ErrnoError("map a ring of " + std::to_string(size) + " bytes");
  mapping_ = std::unique_ptr<char, Unmap>(static_cast<char*>(base), Unmap{size});
  size_ = size;
  return {};
}

Result<void> Source::CopyAll(std::uint64_t size) {
  if (size > kMaxCopied) {
    return Error{Code::kFailed, "a copied ring of " + std::to_string(size) + " bytes is too large", ""};
  }
  copy_.resize((size + 7) / 8);
  size_ = 0;
  while (size_ < size) {
    const ssize_t got = pread(fd_.get(), reinterpret_cast<char*>(copy_.data()) + size_, size - size_,
                              static_cast<off_t>(size_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("read a ring");
    if (got == 0) break;  // it was cut short meanwhile
    size_ += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace probing::ring
