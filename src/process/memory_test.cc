#include "process/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace probing::process {
namespace {

template <typename T>
RemotePtr<T> AddressOf(const T* local) {
  return {reinterpret_cast<std::uint64_t>(local)};
}

TEST(ProcessMemory, ReadsAndWritesValues) {
  const ProcessMemory memory(getpid());
  long number = 41;
  EXPECT_EQ(*memory.ReadValue(AddressOf(&number)), 41);
  const long wanted = 42;
  ASSERT_TRUE(memory.Write(AddressOf(&number).As<void>(), std::as_bytes(std::span(&wanted, 1))).ok());
  EXPECT_EQ(number, 42);
}

TEST(ProcessMemory, NothingIsMappedAtZero) {
  const ProcessMemory memory(getpid());
  const auto value = memory.ReadValue(RemotePtr<long>{0});
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.error().message.find("EFAULT"), std::string::npos) << value.error().message;
  EXPECT_FALSE(memory.ReadValue(RemotePtr<long>{~0ULL - 3}).ok());
}

TEST(ProcessMemory, SaysThatTheProcessIsGone) {
  const auto value = ProcessMemory(0x3fffffff).ReadValue(RemotePtr<long>{4096});
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().code, Code::kNotFound);
}

class ReadCString : public testing::Test {
 protected:
  // Two pages of which only the first can be read.
  void SetUp() override {
    page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* pages = mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    pages_ = static_cast<char*>(pages);
    ASSERT_EQ(mprotect(pages_ + page_bytes_, page_bytes_, PROT_NONE), 0);
  }
  void TearDown() override { munmap(pages_, 2 * page_bytes_); }

  std::size_t page_bytes_ = 0;
  char* pages_ = nullptr;
  ProcessMemory memory_{getpid()};
};

TEST_F(ReadCString, StopsBeforeThePageThatCannotBeRead) {
  char* text = pages_ + page_bytes_ - 4;
  std::memcpy(text, "abc", 4);
  EXPECT_EQ(*memory_.ReadCString(AddressOf(text).As<void>(), 1000), "abc");
}

TEST_F(ReadCString, FailsWhenTheEndCannotBeReached) {
  char* text = pages_ + page_bytes_ - 4;
  std::memcpy(text, "abcd", 4);
  EXPECT_FALSE(memory_.ReadCString(AddressOf(text).As<void>(), 1000).ok());
}

TEST_F(ReadCString, CutsWhatIsTooLong) {
  std::memset(pages_, 'x', 2000);
  EXPECT_EQ(*memory_.ReadCString(AddressOf(pages_).As<void>(), 1000), std::string(1000, 'x'));
  EXPECT_EQ(memory_.ReadCString(AddressOf(pages_).As<void>(), 5000)->size(), 2000U);
  EXPECT_EQ(*memory_.ReadCString(AddressOf(pages_).As<void>(), 0), "");
}

}  // namespace
}  // namespace probing::process
