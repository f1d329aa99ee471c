#include "observe/host/last_words.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "observe/host/series_table.h"
#include "ring/arena.h"

namespace probing::observe {
namespace {

const std::int64_t kPid = getpid();

class LastWordsTest : public ::testing::Test {
 protected:
  LastWordsTest() : arena_(std::move(*ring::Arena::Create({}))) {}

  void Write(std::string_view table, std::vector<std::string_view> columns, std::int64_t time_ns,
             std::vector<ring::Cell> cells) {
    auto added = SeriesTable::Add(*arena_, table, columns, 100);
    ASSERT_TRUE(added.ok());
    added->Write(time_ns, cells);
  }
  void WriteException(std::int64_t time_ns, std::int64_t tid, std::string_view type, std::string_view message,
                      bool handled = false) {
    Write("python.exceptions", {"tid", "type", "message", "handled"}, time_ns,
          {ring::Cell::Int(tid), ring::Cell::String(type), ring::Cell::String(message),
           ring::Cell::Bool(handled)});
  }
  LastWords Read() const {
    const std::vector<std::shared_ptr<const ScopedFd>> rings{
        std::make_shared<const ScopedFd>(dup(arena_->fd()))};
    return ReadLastWords(rings);
  }

  std::unique_ptr<ring::Arena> arena_;
};

TEST_F(LastWordsTest, NothingIsSaidByNothing) {
  EXPECT_EQ(Read().step, std::nullopt);
  EXPECT_EQ(Read().exception, "");
  const std::vector<std::shared_ptr<const ScopedFd>> broken{std::make_shared<const ScopedFd>(-1)};
  EXPECT_EQ(ReadLastWords(broken).step, std::nullopt);
}

TEST_F(LastWordsTest, TheNewestStepOfAnyTableCounts) {
  Write("python.metrics", {"step"}, 300, {ring::Cell::Int(7)});
  Write("python.spans", {"step"}, 200, {ring::Cell::Int(9)});
  Write("python.metrics", {"step"}, 400, {ring::Cell::Null()});
  EXPECT_EQ(Read().step, 7);
  Write("python.torch_steps", {"step"}, 301, {ring::Cell::Int(8)});
  EXPECT_EQ(Read().step, 8);
}

TEST_F(LastWordsTest, TheExceptionIsTheMainThreadsLastThatNobodyCaught) {
  WriteException(100, kPid, "KeyError", "'a'");
  WriteException(200, kPid, "ValueError", "", false);
  WriteException(300, kPid, "TypeError", "caught", true);
  WriteException(400, kPid + 1, "OSError", "of another thread");
  EXPECT_EQ(Read().exception, "ValueError");
  WriteException(500, kPid, "my.Error", "no: way");
  EXPECT_EQ(Read().exception, "my.Error: no: way");
}

}  // namespace
}  // namespace probing::observe
