// Readers of rings that stay open between queries: mapping a ring anew and copying its dictionary
// again would cost more than many a query.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "ring/reader.h"

namespace probing::table {

// A reader that belongs to one thread until the end of the scope; then the next one may have it.
class RingLease {
 public:
  RingLease(std::unique_ptr<ring::Reader> reader, dev_t device, ino_t inode)
      : reader_(std::move(reader)), device_(device), inode_(inode) {}
  RingLease(RingLease&&) = default;
  RingLease& operator=(RingLease&&) = delete;
  ~RingLease();

  ring::Reader& operator*() const { return *reader_; }
  ring::Reader* operator->() const { return reader_.get(); }

 private:
  std::unique_ptr<ring::Reader> reader_;  // null after a move
  dev_t device_;
  ino_t inode_;
};

// Thread-safe. Readers that nobody has used for some seconds are closed when the next one is asked
// for, so that the memory of a target that ended goes back.
Result<RingLease> LeaseRing(const ScopedFd& fd);

}  // namespace probing::table
