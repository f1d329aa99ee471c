// KeptFile: a file of /proc that is read again and again.
//
// From the second read on it stays open, because opening costs several times what reading does, as long as
// the budget of descriptors lasts; beyond that it is opened for each look. A file of a process or thread
// means that one for ever: when it has ended reading fails, even if its number is used again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/scoped_fd.h"

namespace probing::observe {

// How many files may stay open. Not thread-safe; outlives the files that use it.
class FileBudget {
 public:
  explicit FileBudget(int files) : left_(files) {}
  static FileBudget HalfOfTheLimit();  // of descriptors of this process

  bool Take() { return left_ > 0 && left_-- > 0; }
  void Give() { ++left_; }
  int left() const { return left_; }

 private:
  int left_;
};

class KeptFile {
 public:
  // `folder_fd` is borrowed: AT_FDCWD, or a directory that outlives this.
  KeptFile(int folder_fd, std::string name, FileBudget* budget)
      : folder_fd_(folder_fd), name_(std::move(name)), budget_(budget) {}
  KeptFile(KeptFile&&) noexcept = default;
  KeptFile& operator=(KeptFile&&) = delete;
  ~KeptFile() {
    if (fd_.valid()) budget_->Give();
  }

  // The content, in `buffer`, which grows as it must (up to 1 MB). nullopt when there is none to be had.
  std::optional<std::string_view> Read(std::string& buffer);

 private:
  int folder_fd_;
  std::string name_;
  FileBudget* budget_;
  bool was_read_ = false;
  ScopedFd fd_;
};

}  // namespace probing::observe
