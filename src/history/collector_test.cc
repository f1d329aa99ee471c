// From rings to files: every row once, whatever happens in between.
#include "history/collector.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "history/retention.h"
#include "ring/arena.h"

namespace probing::history {
namespace {

using ring::Cell;
namespace fs = std::filesystem;

constexpr std::int64_t kDayNs = 86'400'000'000'000;

class CollectorTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/collector-" + std::to_string(getpid());
    arena_ = std::move(*ring::Arena::Create({}));
    table_ =
        *arena_->AddTable({"python.mine",
                           {{"timestamp", ring::ColumnType::kTimestamp}, {"n", ring::ColumnType::kInt64}},
                           1000});
    Open();
  }
  void TearDown() override {
    collector_.reset();
    writer_.reset();
    fs::remove_all(folder_);
  }

  // What a new worker does.
  void Open() {
    collector_.reset();
    writer_.reset();
    Result<std::unique_ptr<FileWriter>> writer = FileWriter::Open(folder_, "here");
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    writer_ = std::move(*writer);
    collector_ = std::make_unique<Collector>(*writer_);
    SetRings(false);
  }
  void SetRings(bool ended) {
    RingEntry entry;
    entry.pid = 7;
    entry.host = "here";
    entry.job = "local";
    entry.ended = ended;
    std::vector<ScopedFd> files;
    files.emplace_back(dup(arena_->fd()));
    collector_->SetRings({entry}, std::move(files));
  }
  void Write(int rows) {
    for (int i = 0; i < rows; ++i) {
      const Cell row[] = {Cell::Null(), Cell::Int(next_++)};
      ASSERT_EQ(table_->Write(row, 2), ring::WriteStatus::kWritten);
    }
  }
  // The values in all files that count, and that none is there twice.
  std::set<std::int64_t> Read() {
    static ParquetStore* const store = query::ParquetStore::Open(64 << 20)->release();
    static const table::Column columns[] = {{"timestamp", table::Type::kTimestamp, "", ""},
                                            {"n", table::Type::kInt64, "", ""}};
    static const table::Table table{"python.mine", table::Kind::kStored, table::Origin::kProbe, "", columns};
    std::set<std::int64_t> values;
    for (const table::HistoryFile& file : table::ListHistory(folder_, {})) {
      const std::string path = folder_ + "/" + table::HistoryPath(file);
      auto cursor = store->Read(ScopedFd(open(path.c_str(), O_RDONLY)), table, {1}, {});
      EXPECT_TRUE(cursor.ok()) << cursor.error().message;
      std::int64_t numbers[table::kBatchRows];
      std::uint64_t validity[table::kBatchRows / 64];
      std::vector<table::ColumnOut> out{{numbers, validity}};
      std::uint64_t rows = 0;
      for (std::size_t count = 0; (count = (*cursor)->Next(out).value()) > 0; rows += count) {
        for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(values.insert(numbers[i]).second) << numbers[i];
      }
      EXPECT_EQ(rows, file.rows) << path;
    }
    return values;
  }
  std::size_t FileCount() { return table::ListHistory(folder_, {}).size(); }
  void CollectDue() { collector_->Collect(Collector::Which::kDue, 3'600'000'000'000); }
  void CollectAll() { collector_->Collect(Collector::Which::kAll, 0); }

  using ParquetStore = query::ParquetStore;
  std::string folder_;
  std::unique_ptr<ring::Arena> arena_;
  ring::Table* table_ = nullptr;
  std::int64_t next_ = 0;
  std::unique_ptr<FileWriter> writer_;
  std::unique_ptr<Collector> collector_;
};

TEST_F(CollectorTest, RowsAreWrittenOnce) {
  Write(100);
  CollectAll();
  CollectAll();
  EXPECT_EQ(Read().size(), 100U);
  EXPECT_EQ(FileCount(), 1U);
  Write(5);
  CollectAll();
  EXPECT_EQ(Read().size(), 105U);
  ASSERT_EQ(collector_->status().size(), 1U);
  EXPECT_EQ(collector_->status()[0].rows, 105);
  EXPECT_EQ(collector_->status()[0].lost, 0);
}

TEST_F(CollectorTest, ANewWorkerGoesOnWhereTheFilesEnd) {
  Write(100);
  CollectAll();
  // A file that was not finished, as somebody leaves it who is killed.
  std::ofstream(folder_ + "/.tmp/here.parquet") << "half a file";
  Write(50);
  Open();
  EXPECT_FALSE(fs::exists(folder_ + "/.tmp/here.parquet"));
  CollectAll();
  EXPECT_EQ(Read().size(), 150U);
}

TEST_F(CollectorTest, RowsWaitUntilTheyAreDue) {
  Write(1);
  CollectDue();  // the first look
  const std::size_t before = Read().size();
  Write(100);
  CollectDue();
  EXPECT_EQ(Read().size(), before);
  Write(200);  // more than a quarter of the ring's 1000
  CollectDue();
  EXPECT_EQ(Read().size(), 301U);
  Write(1);
  SetRings(true);  // nobody will write any more
  CollectDue();
  EXPECT_EQ(Read().size(), 302U);
  Write(1);
  collector_->SetRings({}, {});  // a last look
  EXPECT_EQ(Read().size(), 303U);
}

TEST_F(CollectorTest, WhatWasOverwrittenInTimeIsCounted) {
  Write(10);
  CollectAll();
  Write(5000);
  CollectAll();
  const std::size_t kept = Read().size();
  ASSERT_EQ(collector_->status().size(), 1U);
  EXPECT_EQ(collector_->status()[0].rows, static_cast<std::int64_t>(kept));
  EXPECT_GT(collector_->status()[0].lost, 0);
  EXPECT_EQ(collector_->status()[0].lost + collector_->status()[0].rows, 5010);
}

TEST_F(CollectorTest, SmallFilesAreMergedAndNothingIsLost) {
  for (int i = 0; i < 40; ++i) {
    Write(10);
    CollectAll();
  }
  EXPECT_EQ(Read().size(), 400U);
  EXPECT_LT(FileCount(), 20U);
  // The old ones go at the second look.
  Retention retention(folder_);
  const auto files_on_disk = [this] {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      count += entry.path().extension() == ".parquet" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(files_on_disk(), 42U);
  retention.Prune({7, 1 << 30}, WallNs());
  EXPECT_EQ(files_on_disk(), 42U);
  retention.Prune({7, 1 << 30}, WallNs());
  EXPECT_EQ(files_on_disk(), FileCount());
  EXPECT_EQ(Read().size(), 400U);
  // And who comes later sees it the same way.
  Open();
  Write(1);
  CollectAll();
  EXPECT_EQ(Read().size(), 401U);
}

TEST_F(CollectorTest, OldDaysGoAndOtherPeoplesFilesStay) {
  Write(10);
  CollectAll();
  std::ofstream(folder_ + "/notes.txt") << "mine";
  Retention retention(folder_);
  retention.Prune({2, 1 << 30}, WallNs() + 2 * kDayNs);
  EXPECT_EQ(FileCount(), 1U);
  retention.Prune({2, 1 << 30}, WallNs() + 3 * kDayNs);
  EXPECT_EQ(FileCount(), 0U);
  EXPECT_FALSE(fs::exists(folder_ + "/job=local"));
  EXPECT_TRUE(fs::exists(folder_ + "/notes.txt"));
}

TEST_F(CollectorTest, TheOldestGoWhenThereIsTooMuch) {
  for (int i = 0; i < 3; ++i) {
    Write(300);
    CollectAll();
  }
  ASSERT_EQ(FileCount(), 3U);
  const std::uintmax_t size =
      fs::file_size(folder_ + "/" + table::HistoryPath(table::ListHistory(folder_, {})[2]));
  Retention(folder_).Prune({7, static_cast<std::int64_t>(size + size / 2)}, WallNs());
  const std::set<std::int64_t> left = Read();
  ASSERT_EQ(left.size(), 300U);
  EXPECT_EQ(*left.begin(), 600);
}

TEST_F(CollectorTest, OneWriterForADirectory) {
  const Result<std::unique_ptr<FileWriter>> second = FileWriter::Open(folder_, "here");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another probingd"), std::string::npos);
  EXPECT_TRUE(FileWriter::Open(folder_, "there").ok());
}

TEST_F(CollectorTest, AFileThatCannotBeWrittenIsTriedAgain) {
  Write(10);
  fs::permissions(folder_ + "/.tmp", fs::perms::none);
  fs::remove_all(folder_ + "/.tmp");
  std::ofstream(folder_ + "/.tmp") << "in the way";
  CollectAll();
  EXPECT_EQ(FileCount(), 0U);
  EXPECT_NE(collector_->problem(), "");
  fs::remove(folder_ + "/.tmp");
  fs::create_directory(folder_ + "/.tmp");
  CollectAll();
  EXPECT_EQ(collector_->problem(), "");
  EXPECT_EQ(Read().size(), 10U);
}

}  // namespace
}  // namespace probing::history
