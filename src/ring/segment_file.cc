#include "ring/segment_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/stat_line.h"
#include "ring/words.h"

namespace probing::ring {
namespace {

// Newer than the headers of the glibc we build against.
constexpr unsigned kCloseOnExec = 1;   // MFD_CLOEXEC
constexpr unsigned kAllowSealing = 2;  // MFD_ALLOW_SEALING
constexpr int kAddSeals = 1033;        // F_ADD_SEALS
constexpr int kSealShrink = 2;         // F_SEAL_SHRINK
constexpr int kPopulateWrite = 23;     // MADV_POPULATE_WRITE, Linux 5.14
constexpr std::uint64_t kMaxStep = 256U << 10;
constexpr int kInterruptedTries = 64;

std::uint64_t OwnStartTicks() {
  constexpr int kStartTime = 22;
  const Result<std::string> stat = ReadFile("/proc/self/stat");
  return stat.ok() ? StatLine(*stat).Field(kStartTime).value_or(0) : 0;
}

// Direct, because glibc's fallocate() is a point where a thread can be cancelled.
int AllocateRange(int fd, int mode, std::uint64_t offset, std::uint64_t bytes) {
  for (int i = 0; i < kInterruptedTries; ++i) {
    if (syscall(SYS_fallocate, fd, mode, offset, bytes) == 0) return 0;
    if (errno != EINTR) return errno;
  }
  return EINTR;
}

}  // namespace

Result<ScopedFd> MakeMemoryFile() {
  ScopedFd fd(static_cast<int>(syscall(SYS_memfd_create, "probing-ring", kCloseOnExec | kAllowSealing)));
  if (!fd.valid()) return ErrnoError("make a memory file for the rings (memfd_create)");
  return fd;
}

Result<std::unique_ptr<SegmentFile>> SegmentFile::Create(ScopedFd fd, std::uint64_t max_bytes) {
  std::unique_ptr<SegmentFile> file(new SegmentFile(std::move(fd), max_bytes));
  if (const int error = file->Begin(); error != 0) {
    Error failure = ErrnoError("begin a ring of at most " + std::to_string(max_bytes) + " bytes", error);
    failure.hint = "raise probing.max_memory, or the limits of the process (ulimit -f, -v)";
    return failure;
  }
  return file;
}

int SegmentFile::Begin() {
  if (const int error = guard_.Arm(); error != 0) return error;
  struct stat info{};
  if (fstat(fd_.get(), &info) != 0) return errno;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  page_bytes_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t bytes = AlignUp(kFirstSegmentOffset, page_bytes_);
  if (!TakeBudget(bytes)) return ENOSPC;
  if (const int error = Extend(bytes); error != 0) return error;
  if (const int error = AllocateRange(fd_.get(), 0, 0, bytes); error != 0) return error;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) return errno;
  madvise(base, bytes, MADV_DONTFORK);
  fcntl(fd_.get(), kAddSeals, kSealShrink);  // a plain file cannot be sealed; readers copy it then
  end_ = bytes;
  header_ = static_cast<FileHeader*>(base);
  header_->version = kFormatVersion;
  header_->byte_order = kByteOrder;
  header_->pid = getpid();
  header_->start_ticks = OwnStartTicks();
  header_->created_ns = WallNs();
  ShowBudget();
  StoreRelease(&header_->magic, kMagic);
  return 0;
}

void SegmentFile::ShowBudget() {
  Store(&header_->allocated_bytes, allocated_bytes());
  Store(&header_->max_bytes, max_bytes());
}

SegmentFile::~SegmentFile() {
  if (!OwnsFd()) static_cast<void>(fd_.Release());
  // In a child the mapping does not exist, and something of the child's may be there instead.
  if (header_ != nullptr && guard_.SameProcess()) munmap(header_, AlignUp(kFirstSegmentOffset, page_bytes_));
}

bool SegmentFile::OwnsFd() const {
  struct stat info{};
  return fd_.valid() && fstat(fd_.get(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

SegmentEntry* SegmentFile::entry(std::uint32_t index) const {
  return reinterpret_cast<SegmentEntry*>(reinterpret_cast<char*>(header_) + kDirectoryOffset) + index;
}

// Makes the file at least this long, without memory behind it.
int SegmentFile::Extend(std::uint64_t end) {
  rlimit limit{};
  // Beyond this limit the kernel would not only refuse but also send SIGXFSZ, which kills.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) {
    return EFBIG;
  }
  struct stat info{};
  if (fstat(fd_.get(), &info) != 0) return errno;
  if (static_cast<std::uint64_t>(info.st_size) >= end) return 0;
  if (ftruncate(fd_.get(), static_cast<off_t>(end)) == 0) return 0;
  const int error = errno;
  // Another thread was faster and went further: what we asked for would have been shrinking.
  if (fstat(fd_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) >= end) return 0;
  return error;
}

bool SegmentFile::TakeBudget(std::uint64_t bytes) {
  const std::uint64_t before = allocated_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes <= max_bytes()) return true;
  allocated_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

void SegmentFile::ReturnBudget(std::uint64_t bytes) {
  allocated_.fetch_sub(bytes, std::memory_order_relaxed);
}

void SegmentFile::set_max_bytes(std::uint64_t bytes) {
  max_bytes_.store(bytes, std::memory_order_relaxed);
  ShowBudget();
}

void SegmentFile::MarkClosed() { Store(&header_->closed, 1); }

int SegmentFile::New(std::uint64_t size, Segment* segment) {
  if (!OwnsFd()) return EBADF;
  std::uint32_t index = 0;
  while (index < kMaxSegments && taken_[index].exchange(true, std::memory_order_acquire)) ++index;
  if (index == kMaxSegments) return EMFILE;
  size = AlignUp(size, page_bytes_);
  const std::uint64_t offset = end_.fetch_add(size, std::memory_order_relaxed);
  int error = Extend(offset + size);
  void* base = MAP_FAILED;
  if (error == 0) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), static_cast<off_t>(offset));
    if (base == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    taken_[index].store(false, std::memory_order_release);
    return error;
  }
  madvise(base, size, MADV_DONTFORK);
  *segment = Segment{static_cast<char*>(base), size, offset, 0, index};
  return 0;
}

int SegmentFile::Allocate(Segment* segment, std::uint64_t bytes) {
  if (bytes <= segment->allocated) return 0;
  if (bytes > segment->size) return EINVAL;
  // Somewhat more than asked for, so that a growing lane asks seldom.
  const std::uint64_t ahead = segment->allocated + std::min(segment->allocated, kMaxStep);
  const std::uint64_t least = AlignUp(bytes, page_bytes_);
  std::uint64_t end = std::min(AlignUp(std::max(bytes, ahead), page_bytes_), segment->size);
  if (!TakeBudget(end - segment->allocated)) {
    end = least;
    if (!TakeBudget(end - segment->allocated)) return ENOSPC;
  }
  const std::uint64_t more = end - segment->allocated;
  const int error =
      OwnsFd() ? AllocateRange(fd_.get(), 0, segment->offset + segment->allocated, more) : EBADF;
  if (error != 0) {
    ReturnBudget(more);
    return error;
  }
  // The page faults now rather than one by one between the rows; where it is unknown, then later.
  madvise(segment->base + segment->allocated, more, kPopulateWrite);
  segment->allocated = end;
  ShowBudget();
  return 0;
}

void SegmentFile::Publish(const Segment& segment, SegmentKind kind, std::uint32_t table) {
  SegmentEntry* to = entry(segment.index);
  Store(&to->offset, segment.offset);
  Store(&to->size, segment.size);
  Store(&to->kind, kind);
  Store(&to->table, table);
  StoreRelease(&to->state, Load(&to->state) + 1);
  std::uint32_t count = Load(&header_->segment_count);
  while (count <= segment.index &&
         !__atomic_compare_exchange_n(&header_->segment_count, &count, segment.index + 1, true,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

void SegmentFile::Free(Segment* segment) {
  if (segment->base == nullptr) return;
  SegmentEntry* from = entry(segment->index);
  if (const std::uint32_t state = Load(&from->state); state % 2 == 1) {
    Store(&from->state, state + 1);
    FenceRelease();
  }
  munmap(segment->base, segment->size);
  const bool punched = segment->allocated == 0 ||
                       (OwnsFd() && AllocateRange(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                  segment->offset, segment->size) == 0);
  if (punched) ReturnBudget(segment->allocated);
  taken_[segment->index].store(false, std::memory_order_release);
  ShowBudget();
  *segment = Segment{};
}

}  // namespace probing::ring
