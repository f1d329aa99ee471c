// The same SQL over rings and files: each row once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "query/format.h"
#include "query/sample_test.h"
#include "ring/arena.h"
#include "table/history_files.h"
#include "table/ring_batch.h"
#include "table/rows.h"

namespace probing::query {
namespace {

using ring::Cell;
using table::Type;

constexpr std::int64_t kTimeNs = 1'767'225'600'123'456'789;  // 2026-01-01 00:00:00.123456789

Engine& TheEngine() {
  static Engine* const engine = Engine::Open({})->release();  // never closed, as in sample_test.cc
  return *engine;
}

class HistoryQuery : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/history-query-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    arena_ = std::move(*ring::Arena::Create({}));
    table_ = *arena_->AddTable({"python.mine",
                                {{"timestamp", ring::ColumnType::kTimestamp},
                                 {"n", ring::ColumnType::kInt64},
                                 {"s", ring::ColumnType::kString}},
                                1000});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteRing(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::string text = "row " + std::to_string(i);
      const Cell row[] = {Cell::Timestamp(kTimeNs + i), Cell::Int(i),
                          i % 2 == 0 ? Cell::String(text) : Cell::Null()};
      ASSERT_EQ(table_->Write(row, 3), ring::WriteStatus::kWritten);
    }
  }

  table::Target target() const {
    table::Target target;
    target.pid = 7;
    target.host = "here";
    target.ring_fds.push_back(std::make_shared<const ScopedFd>(dup(arena_->fd())));
    return target;
  }

  // A file with rows [from, to) of the one lane that the ring has.
  void WriteFile(std::int64_t from, std::int64_t to) {
    ring::Reader reader = std::move(*ring::Reader::Open(ScopedFd(dup(arena_->fd()))));
    ring::Scan scan = reader.StartScan(reader.Tables()[0], {.columns = {0}});
    ring::Batch batch;
    ASSERT_TRUE(scan.Next(&batch));
    table::HistoryFile file;
    file.job = "local";
    file.day = "2026-01-01";
    file.table = "python.mine";
    file.ring = {"here", 7, reader.created_ns()};
    file.lane = batch.lane_id();
    file.first_row = static_cast<std::uint64_t>(from);
    file.rows = static_cast<std::uint64_t>(to - from);
    file.min_ns = kTimeNs + from;
    file.max_ns = kTimeNs + to - 1;
    table::Rows rows({Type::kTimestamp, Type::kInt64, Type::kString});
    for (std::int64_t i = from; i < to; ++i)
      rows.Add({kTimeNs + i, i, i % 2 == 0 ? table::Value("row " + std::to_string(i)) : table::Value()});
    const std::string path = folder_ + "/" + table::HistoryPath(file);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const ScopedFd fd(open(path.c_str(), O_RDWR | O_CREAT, 0600));
    const auto store = std::move(*ParquetStore::Open(64 << 20));
    const auto cursor = table::MakeRowsCursor(std::make_shared<const table::Rows>(std::move(rows)));
    const Result<void> written = store->Write(
        fd, {{"timestamp", Type::kTimestamp}, {"n", Type::kInt64}, {"s", Type::kString}}, *cursor);
    ASSERT_TRUE(written.ok()) << written.error().message;
  }

  std::string Query(std::string_view sql, Sight sight) {
    std::string text;
    const auto writer =
        MakeFormatWriter(TheEngine(), {Format::kCsv, 0}, [&](std::string_view bytes) -> Result<void> {
          text += bytes;
          return {};
        });
    Outcome outcome = TheEngine().Execute(sql, std::move(sight), {}, *writer);
    if (outcome.error) return outcome.error->Text(sql);
    (void)writer->End();
    warnings_ = std::move(outcome.warnings);
    return text;
  }
  std::string Query(std::string_view sql, std::optional<std::int64_t> pid = std::nullopt) {
    return Query(sql, {{target()}, table::HistoryScope{folder_, pid}});
  }

  std::string folder_;
  std::unique_ptr<ring::Arena> arena_;
  ring::Table* table_ = nullptr;
  std::vector<std::string> warnings_;
};

constexpr char kCount[] = "SELECT count(*) AS n, count(DISTINCT n) AS d, sum(n) AS s FROM python.mine";

TEST_F(HistoryQuery, RowsInBothAreReadOnce) {
  WriteRing(0, 500);
  WriteFile(0, 100);
  WriteFile(100, 230);
  EXPECT_EQ(Query(kCount), "n,d,s\r\n500,500,124750\r\n");
  // Without history the ring has all of them.
  EXPECT_EQ(Query(kCount, Sight{{target()}, std::nullopt}), "n,d,s\r\n500,500,124750\r\n");
  // Without the ring the files have some.
  EXPECT_EQ(Query(kCount, Sight{{}, table::HistoryScope{folder_, std::nullopt}}),
            "n,d,s\r\n230,230,26335\r\n");
}

TEST_F(HistoryQuery, ValuesComeBackAsTheyWere) {
  WriteRing(0, 1);
  WriteFile(0, 3);
  EXPECT_EQ(Query("SELECT timestamp_ns, n, s, pid, rank, host FROM python.mine ORDER BY n"),
            "timestamp_ns,n,s,pid,rank,host\r\n"
            "1767225600123456789,0,row 0,7,,here\r\n"
            "1767225600123456790,1,,7,,here\r\n"
            "1767225600123456791,2,row 2,7,,here\r\n");
}

TEST_F(HistoryQuery, OnlyTheProcessThatWasAskedFor) {
  WriteRing(0, 10);
  WriteFile(0, 5);
  EXPECT_EQ(Query("SELECT count(*) AS n FROM python.mine", 7), "n\r\n10\r\n");
  EXPECT_EQ(Query("SELECT count(*) AS n FROM python.mine", Sight{{}, table::HistoryScope{folder_, 8}})
                .find("n\r\n"),
            std::string::npos);  // nobody knows such a table
}

TEST_F(HistoryQuery, ABrokenFileIsAWarningBesideTheOthers) {
  WriteRing(0, 10);
  WriteFile(0, 5);
  const std::string whole = folder_ + "/" + table::HistoryPath(table::ListHistory(folder_, {})[0]);
  table::HistoryFile other = table::ListHistory(folder_, {})[0];
  other.ring.pid = 99;
  std::ofstream(folder_ + "/" + table::HistoryPath(other)) << "not Parquet at all";
  EXPECT_EQ(Query("SELECT count(*) AS n FROM python.mine"), "n\r\n10\r\n");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("python.mine of 99: a history file cannot be read")) << warnings_[0];
}

TEST_F(HistoryQuery, SqlStillOpensNoFile) {
  WriteRing(0, 10);
  WriteFile(0, 5);
  EXPECT_EQ(Query("SELECT count(*) AS n FROM python.mine"), "n\r\n10\r\n");
  const std::string path = folder_ + "/" + table::HistoryPath(table::ListHistory(folder_, {})[0]);
  for (const std::string& sql :
       {"SELECT * FROM read_parquet('" + path + "')", "SELECT * FROM '" + path + "'",
        "SELECT * FROM glob('" + folder_ + "/*')", "SELECT * FROM read_text('" + path + "')",
        std::string("SELECT * FROM probing_rows()")}) {
    const std::string answer = Query(sql);
    EXPECT_TRUE(answer.find("is not allowed") != std::string::npos ||
                answer.find("disabled by configuration") != std::string::npos ||
                answer.find("does not exist") != std::string::npos)
        << sql << ": " << answer;
  }
}

}  // namespace
}  // namespace probing::query
