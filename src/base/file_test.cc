#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/clock.h"
#include "base/scoped_fd.h"

namespace probing {
namespace {

TEST(ReadFile, ReadsFilesWhoseSizeIsNotKnown) {
  const auto status = ReadFile("/proc/self/status");
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->starts_with("Name:"));
}

TEST(ReadFile, SaysWhichFileIsMissing) {
  const auto missing = ReadFile("/nowhere/at/all");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "open /nowhere/at/all: ENOENT (No such file or directory)");
}

TEST(ReadFile, ADirectoryIsAnError) { EXPECT_FALSE(ReadFile("/").ok()); }

TEST(ReadLink, ReadsWhereALinkPoints) {
  EXPECT_EQ(*ReadLink("/proc/self"), std::to_string(getpid()));
  EXPECT_FALSE(ReadLink("/proc/self/status").ok());
}

TEST(ListDirectory, LeavesOutTheDots) {
  const auto names = ListDirectory("/proc/self/task");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(std::count(names->begin(), names->end(), "."), 0);
  EXPECT_EQ(std::count(names->begin(), names->end(), std::to_string(getpid())), 1);
}

TEST(WriteAll, WritesMoreThanAPipeHolds) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  ScopedFd in(ends[0]);
  ScopedFd out(ends[1]);
  const std::string data(1 << 20, 'x');
  std::thread writer([&] {
    EXPECT_TRUE(WriteAll(out.get(), data).ok());
    out.Reset();
  });
  std::string received;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(in.get(), buffer.data(), buffer.size())) > 0;) {
    received.append(buffer.data(), static_cast<std::size_t>(n));
  }
  writer.join();
  EXPECT_EQ(received, data);
}

TEST(ScopedFd, ClosesWhatItOwnsAndOnlyThat) {
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    ScopedFd first(number);
    ScopedFd second(std::move(first));
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is the claim
    EXPECT_EQ(second.get(), number);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(Deadline, NeverHasNegativeTimeLeft) {
  const Deadline past = Deadline::AfterMs(-5);
  EXPECT_TRUE(past.passed());
  EXPECT_EQ(past.left_ms(), 0);
  const Deadline future = Deadline::AfterMs(60'000);
  EXPECT_FALSE(future.passed());
  EXPECT_GT(future.left_ms(), 50'000);
}

}  // namespace
}  // namespace probing
