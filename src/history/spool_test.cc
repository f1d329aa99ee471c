// Rows that wait for a store: none lost, none twice, never more than there is room for.
#include "history/spool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "history/opened_ring.h"
#include "ring/arena.h"

namespace probing::history {
namespace {

using ring::Cell;
namespace fs = std::filesystem;

class SpoolTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/spool-" + std::to_string(getpid());
    arena_ = std::move(*ring::Arena::Create({}));
    table_ = *arena_->AddTable({"python.mine",
                                {{"timestamp", ring::ColumnType::kTimestamp},
                                 {"n", ring::ColumnType::kInt64},
                                 {"probing_x", ring::ColumnType::kInt64}},
                                1000});
    reader_.emplace(std::move(*ring::Reader::Open(ScopedFd(dup(arena_->fd())))));
    about_.pid = getpid();
    about_.host = "here";
    ring_ = "here~" + std::to_string(getpid()) + "~1";
    Open();
  }
  void TearDown() override {
    spool_.reset();
    fs::remove_all(folder_);
  }

  // What a new worker does.
  void Open() {
    spool_.reset();
    Result<std::unique_ptr<Spool>> spool = Spool::Open(folder_);
    ASSERT_TRUE(spool.ok()) << spool.error().message;
    spool_ = std::move(*spool);
  }
  // A batch with what is new, behind what the spool has had.
  std::optional<Batch> NewBatch(int rows) {
    for (int i = 0; i < rows; ++i) {
      const Cell row[] = {Cell::Null(), i % 2 == 0 ? Cell::Int(i) : Cell::Null(), Cell::Int(1)};
      EXPECT_EQ(table_->Write(row, 3), ring::WriteStatus::kWritten);
    }
    Feed feed(*reader_, reader_->Tables().front(), spool_->Position("python.mine", ring_), about_);
    std::optional<Batch> batch;
    while (feed.NextFile()) {
      if (!batch) batch.emplace(ShapeOf("python.mine", feed), 77);
      EXPECT_TRUE(batch->Add(feed, "job", ring_).ok());
    }
    return batch;
  }
  void Add(int rows) {
    const std::optional<Batch> batch = NewBatch(rows);
    ASSERT_TRUE(batch);
    ASSERT_TRUE(spool_->Add(*batch).ok());
  }
  Spool::Counts counts() { return spool_->counts()["python.mine"]; }

  std::string folder_;
  std::unique_ptr<ring::Arena> arena_;
  ring::Table* table_ = nullptr;
  std::optional<ring::Reader> reader_;
  table::Target about_;
  std::string ring_;
  std::unique_ptr<Spool> spool_;
};

TEST_F(SpoolTest, ARowIsInOneBatchWhoeverWritesIt) {
  Add(10);
  EXPECT_FALSE(NewBatch(0));
  Open();
  EXPECT_FALSE(NewBatch(0)) << "a new worker goes on behind it";
  fs::remove(folder_ + "/positions");  // killed between the batch and the positions
  Open();
  EXPECT_FALSE(NewBatch(0));
  Add(5);
  EXPECT_EQ(counts().waiting, 15);
  const std::vector<Spool::Entry> taken = spool_->Take({});
  ASSERT_EQ(taken.size(), 2U) << "one insert for both";
  EXPECT_EQ(taken[0].rows, 10);
  spool_->Remove(taken[0]);
  EXPECT_EQ(counts().waiting, 5);
}

TEST_F(SpoolTest, OnlyRingsThatNobodyCanReadAnyMoreAreForgotten) {
  ring_ = "here~0~1";  // nobody has this number
  Add(10);
  spool_->Forget({ring_});
  EXPECT_FALSE(NewBatch(0)) << "its process has ended, and its rows are still there";
  spool_->Forget({});
  EXPECT_TRUE(NewBatch(0));
  ring_ = "here~" + std::to_string(getpid()) + "~1";
  ASSERT_TRUE(spool_->Add(*NewBatch(0)).ok());
  spool_->Forget({});
  EXPECT_FALSE(NewBatch(0)) << "a new probingd has not found it yet";
}

TEST_F(SpoolTest, WhetherABatchWasSentOutlivesTheSender) {
  Add(3);
  std::vector<Spool::Entry> taken = spool_->Take({});
  ASSERT_TRUE(taken.size() == 1 && !taken[0].was_sent);
  spool_->MarkSent(taken[0]);
  spool_->PutBack();
  Open();
  taken = spool_->Take({});
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_TRUE(taken[0].was_sent);
  ASSERT_TRUE(spool_->Load(taken[0]));
  EXPECT_TRUE(spool_->Take({"python.mine"}).empty());
}

TEST_F(SpoolTest, RowsThatHaveArrivedAreNotSentAgain) {
  const std::optional<Batch> batch = NewBatch(4);
  ASSERT_TRUE(batch);
  const std::size_t lane = batch->ranges().front().lane;
  EXPECT_EQ(batch->DataWithout({}), batch->data());
  EXPECT_EQ(batch->DataWithout(batch->ranges()), "");
  const std::string rest =
      batch->DataWithout({{ring_, lane, 0, 1}, {ring_, lane, 3, 1}, {"other", lane, 1, 1}});
  EXPECT_LT(rest.size(), batch->data().size());
  EXPECT_NE(batch->data().find(rest), std::string::npos) << "the two in the middle";
  EXPECT_FALSE(store::HasColumn(batch->shape(), "probing_x")) << "a name of the store's";
}

TEST_F(SpoolTest, WithoutRoomTheOldestGoAndAreCounted) {
  Add(10);
  Add(10);
  std::int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path().extension() == ".new") bytes += static_cast<std::int64_t>(file.file_size());
  }
  spool_->SetMaxBytes(bytes);
  Add(10);
  EXPECT_EQ(counts().dropped, 10);
  EXPECT_EQ(counts().waiting, 20);
  const std::vector<Spool::Entry> sending = spool_->Take({});
  ASSERT_EQ(sending.size(), 1U) << "half of the room";
  Add(10);  // what is being sent stays
  EXPECT_EQ(counts().dropped, 20);
  EXPECT_TRUE(spool_->Load(sending[0]));
  spool_->SetMaxBytes(1);
  Add(10);  // and when nothing else could go, what is new does
  EXPECT_EQ(counts().dropped, 40);
  EXPECT_FALSE(NewBatch(0));
  EXPECT_TRUE(spool_->Load(sending[0]));
}

TEST_F(SpoolTest, ADamagedFileIsCountedAndDoesNotHoldUpTheOthers) {
  Add(10);
  Add(5);
  const Spool::Entry first = spool_->Take({}).front();
  std::ofstream(folder_ + "/" + first.name + ".new") << "rubbish";
  EXPECT_FALSE(spool_->Load(first));
  EXPECT_EQ(counts().dropped, 10);
  std::ofstream(folder_ + "/what.is.this") << "not ours";
  Open();
  ASSERT_EQ(spool_->Take({}).size(), 1U);
  EXPECT_EQ(counts().waiting, 5);
}

TEST_F(SpoolTest, OneAtATimeHasIt) {
  const Result<std::unique_ptr<Spool>> second = Spool::Open(folder_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another probingd"), std::string::npos);
}

}  // namespace
}  // namespace probing::history
