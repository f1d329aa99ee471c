#include "table/history_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace probing::table {
namespace {

HistoryFile File(std::uint64_t first_row, std::uint64_t rows, std::uint64_t lane = 1) {
  HistoryFile file;
  file.job = "night/run 7";
  file.rank = 3;
  file.day = "2026-01-31";
  file.table = "python.gc";
  file.ring = {"node-1.lab", 4242, 1'767'225'600'123'456'789};
  file.lane = lane;
  file.first_row = first_row;
  file.rows = rows;
  file.min_ns = 10;
  file.max_ns = 20;
  return file;
}

class HistoryFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/history-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Put(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << "x";
  }
  std::string folder_;
};

TEST(HistoryFiles, NamesSayAllAndComeBack) {
  const HistoryFile file = File(100, 50);
  const std::string path = HistoryPath(file);
  EXPECT_EQ(path,
            "job=night%2Frun%207/rank=3/day=2026-01-31/table=python.gc/"
            "node-1.lab~4242~1767225600123456789~1~100~50~10~20.parquet");
  const std::optional<HistoryFile> parsed = ParseHistoryPath(path);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->job, file.job);
  EXPECT_EQ(parsed->rank, 3);
  EXPECT_EQ(parsed->table, "python.gc");
  EXPECT_EQ(parsed->ring, file.ring);
  EXPECT_EQ(parsed->end_row(), 150U);
  EXPECT_EQ(HistoryPath(*parsed), path);
}

TEST(HistoryFiles, OtherNamesAreNotOurs) {
  const std::string good = HistoryPath(File(0, 1));
  EXPECT_TRUE(ParseHistoryPath(good));
  for (const std::string& bad :
       {good + "x", good.substr(1), good + "/x", std::string("job=a/rank=b/day=c/table=d/e.parquet"),
        std::string("job=a/rank=1/day=c/table=d/h~1~1~1~1~0~1~1.parquet"),
        std::string("job=a/rank=1/day=c/table=d/h~1~1~1~1~1~1.parquet"),
        std::string("job=%2/rank=1/day=c/table=d/h~1~1~1~1~1~1~1.parquet"),
        std::string("job=a/rank=1/day=c/table=d/h~1~1~1~18446744073709551615~5~1~1.parquet"),
        std::string()}) {
    EXPECT_FALSE(ParseHistoryPath(bad)) << bad;
  }
}

TEST(HistoryFiles, NamesAreEscapedAndNoPathComesOutOfThem) {
  EXPECT_EQ(EscapeName("../x"), "%2E.%2Fx");
  EXPECT_EQ(EscapeName(""), "%");
  for (const std::string& name :
       {std::string("../x"), std::string(), std::string("ä b~c"), std::string("a.b-c_d")})
    EXPECT_EQ(UnescapeName(EscapeName(name)), name);
}

TEST(HistoryFiles, DaysAreOfUtc) {
  EXPECT_EQ(DayOf(1'767'225'600'000'000'000), "2026-01-01");
  EXPECT_EQ(DayOf(1'767'225'599'999'999'999), "2025-12-31");
  EXPECT_EQ(DayOf(-1), "1969-12-31");
}

TEST_F(HistoryFolderTest, AFileWhoseRowsAreInAnotherDoesNotCount) {
  for (const HistoryFile& file : {File(0, 10), File(10, 10), File(0, 20), File(20, 5), File(0, 7, 2)})
    Put(HistoryPath(file));
  Put("job=a/notes.txt");
  Put("job=a/rank=1/day=2026-01-31/table=python.gc/other.parquet");
  std::vector<HistoryFile> superseded;
  const std::vector<HistoryFile> files = ListHistory(folder_, {.table = "python.gc"}, &superseded);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].rows, 20U);
  EXPECT_EQ(files[1].first_row, 20U);
  EXPECT_EQ(files[2].lane, 2U);
  EXPECT_EQ(superseded.size(), 2U);
  const ring::Cursor cursor = CursorBehind(files, files[0].ring);
  EXPECT_EQ(cursor.next_row.at(1), 25U);
  EXPECT_EQ(cursor.next_row.at(2), 7U);
  EXPECT_TRUE(CursorBehind(files, {"elsewhere", 4242, 1}).next_row.empty());
}

TEST_F(HistoryFolderTest, FilesAreFoundByTableAndProcess) {
  HistoryFile other = File(0, 1);
  other.table = "python.mine";
  other.ring.pid = 7;
  Put(HistoryPath(other));
  Put(HistoryPath(File(0, 1)));
  EXPECT_EQ(ListHistory(folder_, {}).size(), 2U);
  EXPECT_EQ(ListHistory(folder_, {.table = "python.mine"}).size(), 1U);
  EXPECT_EQ(ListHistory(folder_, {.pid = 7}).size(), 1U);
  EXPECT_EQ(ListHistory(folder_, {.table = "python.gc", .pid = 7}).size(), 0U);
  EXPECT_EQ(HistoryTables(folder_), (std::vector<std::string>{"python.gc", "python.mine"}));
  EXPECT_TRUE(ListHistory(folder_ + "/none", {}).empty());
}

}  // namespace
}  // namespace probing::table
