#include "table/ring_pool.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <list>
#include <mutex>

#include "base/clock.h"

namespace probing::table {
namespace {

constexpr std::int64_t kKeepNs = 5'000'000'000;
constexpr std::size_t kMaxIdle = 64;

// The file cannot be another one of the same number as long as a reader holds it open.
struct Idle {
  std::unique_ptr<ring::Reader> reader;
  dev_t device;
  ino_t inode;
  std::int64_t since_ns;
};

struct Pool {
  std::mutex mutex;
  std::list<Idle> idle;  // the one that was used last comes first
};

Pool& ThePool() {
  static Pool* pool = new Pool;  // never taken down: threads may still use it when the process ends
  return *pool;
}

}  // namespace

Result<RingLease> LeaseRing(const ScopedFd& fd) {
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoError("look at a ring's descriptor");
  {
    Pool& pool = ThePool();
    std::list<Idle> closed;  // outside of the lock
    const std::lock_guard lock(pool.mutex);
    const std::int64_t now_ns = MonotonicNs();
    while (!pool.idle.empty() && now_ns - pool.idle.back().since_ns > kKeepNs)
      closed.splice(closed.begin(), pool.idle, std::prev(pool.idle.end()));
    for (auto it = pool.idle.begin(); it != pool.idle.end(); ++it) {
      if (it->device != info.st_dev || it->inode != info.st_ino) continue;
      RingLease lease(std::move(it->reader), info.st_dev, info.st_ino);
      pool.idle.erase(it);
      return lease;
    }
  }
  ScopedFd own(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return ErrnoError("dup of a ring's descriptor");
  ASSIGN_OR_RETURN(ring::Reader reader, ring::Reader::Open(std::move(own)));
  return RingLease(std::make_unique<ring::Reader>(std::move(reader)), info.st_dev, info.st_ino);
}

RingLease::~RingLease() {
  if (reader_ == nullptr) return;
  Pool& pool = ThePool();
  std::list<Idle> closed;
  const std::lock_guard lock(pool.mutex);
  pool.idle.push_front({std::move(reader_), device_, inode_, MonotonicNs()});
  if (pool.idle.size() > kMaxIdle) closed.splice(closed.begin(), pool.idle, std::prev(pool.idle.end()));
}

}  // namespace probing::table
