#include "probe/child_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "probe/client.h"
#include "probe/lifecycle.h"

namespace probing::probe {
namespace {

constexpr std::size_t kMostOld = 8;  // processes that were left running in earlier evaluations
constexpr std::size_t kMostAtOnce = 1U << 20;

// Appends what there is. False at the end: nobody can write any more.
bool ReadAvailable(int fd, std::string& text) {
  std::array<char, 16384> bytes;
  std::size_t total = 0;
  while (total < kMostAtOnce) {
    const ssize_t n = read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return true;
    if (n == 0) return false;
    text.append(bytes.data(), static_cast<std::size_t>(n));
    total += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

ChildOutput::~ChildOutput() {
  End();
  for (ScopedFd& fd : old_) CloseOwn(fd);
}

void ChildOutput::Begin(std::size_t most_bytes) {
  End();
  left_ = most_bytes;
  cut_ = false;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const NoForkNow hold;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return End();
    readers_[i].Reset(ends[0]);
    writers_[i].Reset(ends[1]);
    // Only our end: a program expects that its writes are taken.
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ForkClosed::Add(ends[0]);
    ForkClosed::Add(ends[1]);
  }
}

console::Printed ChildOutput::Read() {
  console::Printed printed;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    if (!readers_[i].valid()) continue;
    std::string& text = i == 0 ? printed.out : printed.err;
    (void)ReadAvailable(readers_[i].get(), text);  // we hold the other end: it does not end
    if (text.size() > left_) {
      text.resize(left_);
      cut_ = true;
    }
    left_ -= text.size();
  }
  return printed;
}

void ChildOutput::End() {
  for (ScopedFd& writer : writers_) {
    if (writer.valid()) CloseOwn(writer);
  }
  for (ScopedFd& reader : readers_) {
    if (!reader.valid()) continue;
    std::string late;
    if (ReadAvailable(reader.get(), late) && old_.size() < kMostOld) {
      old_.push_back(std::move(reader));  // somebody can still write
    } else {
      CloseOwn(reader);
    }
  }
}

std::vector<int> ChildOutput::fds() const {
  std::vector<int> all;
  for (const ScopedFd& reader : readers_) {
    if (reader.valid()) all.push_back(reader.get());
  }
  for (const ScopedFd& reader : old_) all.push_back(reader.get());
  return all;
}

void ChildOutput::DropOld() {
  for (ScopedFd& reader : old_) {
    std::string dropped;
    if (!ReadAvailable(reader.get(), dropped)) CloseOwn(reader);
  }
  std::erase_if(old_, [](const ScopedFd& reader) { return !reader.valid(); });
}

}  // namespace probing::probe
