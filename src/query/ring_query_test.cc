// From a ring to every format: values arrive as they were written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "query/format.h"
#include "query/sample_test.h"
#include "ring/arena.h"
#include "table/registry.h"
#include "table/ring_source.h"

namespace probing::query {
namespace {

using ring::Cell;

constexpr std::int64_t kTimeNs = 1'767'225'600'123'456'789;  // 2026-01-01 00:00:00.123456789

// A job's rings, and a target that has them.
class Job {
 public:
  Job() : arena_(std::move(*ring::Arena::Create({}))) {}

  ring::Table& Add(const std::string& name, std::vector<ring::Column> columns) {
    return **arena_->AddTable({name, std::move(columns), 10'000});
  }
  ring::Table& AddDeclared(std::string_view name) {
    return Add(std::string(name), table::RingColumns(*table::FindTable(name)));
  }
  table::Target target(std::int64_t pid = 7) const {
    table::Target target;
    target.pid = pid;
    target.host = "here";
    target.ring_fds.push_back(std::make_shared<const ScopedFd>(dup(arena_->fd())));
    return target;
  }

 private:
  std::unique_ptr<ring::Arena> arena_;
};

// Without sample rows: stored tables are read from rings.
Engine& RingEngine() {
  static Engine* const engine = Engine::Open({})->release();  // never closed, as in sample_test.cc
  return *engine;
}

struct Answer {
  std::string text;
  std::string problem;
  std::vector<std::string> warnings;
};

Answer Query(std::string_view sql, std::vector<table::Target> targets, Format format = Format::kCsv) {
  Answer answer;
  const auto writer =
      MakeFormatWriter(RingEngine(), {format, 0}, [&](std::string_view bytes) -> Result<void> {
        answer.text += bytes;
        return {};
      });
  Outcome outcome = RingEngine().Execute(sql, std::move(targets), {}, *writer);
  if (outcome.error)
    answer.problem = outcome.error->Text(sql);
  else if (const auto ended = writer->End(); !ended.ok())
    answer.problem = "not ended";
  answer.warnings = std::move(outcome.warnings);
  return answer;
}

void WriteHardValues(Job& job) {
  ring::Table& table = job.Add("python.hard", {{"timestamp", ring::ColumnType::kTimestamp},
                                               {"i", ring::ColumnType::kInt64},
                                               {"d", ring::ColumnType::kDouble},
                                               {"b", ring::ColumnType::kBool},
                                               {"s", ring::ColumnType::kString},
                                               {"x", ring::ColumnType::kBytes}});
  const Cell full[] = {Cell::Timestamp(kTimeNs),    Cell::Int(std::numeric_limits<std::int64_t>::max()),
                       Cell::Double(std::nan("")),  Cell::Bool(true),
                       Cell::String("🎉,\"a\"\nb"), Cell::Bytes(std::string_view("\0\xFF", 2))};
  const Cell empty[] = {Cell::Timestamp(kTimeNs + 1),
                        Cell::Int(std::numeric_limits<std::int64_t>::min()),
                        Cell::Double(0.1),
                        Cell::Bool(false),
                        Cell::String(""),
                        Cell::Bytes("")};
  ASSERT_EQ(table.Write(full, 6), ring::WriteStatus::kWritten);
  ASSERT_EQ(table.Write(empty, 6), ring::WriteStatus::kWritten);
  const Cell nothing[] = {Cell::Timestamp(kTimeNs + 2)};
  ASSERT_EQ(table.Write(nothing, 1), ring::WriteStatus::kWritten);
}

constexpr char kHard[] =
    "SELECT timestamp, timestamp_ns, i, d, b, s, x FROM python.hard ORDER BY timestamp_ns";

TEST(RingQuery, HardValuesInCsv) {
  Job job;
  WriteHardValues(job);
  const Answer answer = Query(kHard, {job.target()});
  EXPECT_EQ(answer.problem, "");
  EXPECT_EQ(
      answer.text,
      "timestamp,timestamp_ns,i,d,b,s,x\r\n"
      "2026-01-01 "
      "00:00:00.123456+00,1767225600123456789,9223372036854775807,nan,true,\"🎉,\"\"a\"\"\nb\",\\x00\\xFF\r\n"
      "2026-01-01 00:00:00.123456+00,1767225600123456790,-9223372036854775808,0.1,false,\"\",\"\"\r\n"
      "2026-01-01 00:00:00.123456+00,1767225600123456791,,,,,\r\n");
}

TEST(RingQuery, HardValuesInJson) {
  Job job;
  WriteHardValues(job);
  const std::string first =
      R"({"timestamp":"2026-01-01 00:00:00.123456+00","timestamp_ns":1767225600123456789,"i":9223372036854775807,)"
      R"("d":"NaN","b":true,"s":"🎉,\"a\"\nb","x":"\\x00\\xFF"})";
  const std::string last =
      R"({"timestamp":"2026-01-01 00:00:00.123456+00","timestamp_ns":1767225600123456791,"i":null,"d":null,"b":null,)"
      R"("s":null,"x":null})";
  const Answer lines = Query(kHard, {job.target()}, Format::kJsonl);
  EXPECT_TRUE(lines.text.starts_with(first + "\n")) << lines.text;
  EXPECT_TRUE(lines.text.ends_with("\n" + last + "\n")) << lines.text;
  const Answer whole = Query(kHard, {job.target()}, Format::kJson);
  EXPECT_TRUE(whole.text.starts_with("[\n" + first + ",\n")) << whole.text;
  EXPECT_TRUE(whole.text.ends_with(last + "\n]\n")) << whole.text;
  EXPECT_EQ(Query("SELECT 1 AS a WHERE false", {}, Format::kJson).text, "[]\n");
}

TEST(RingQuery, HardValuesForPeople) {
  Job job;
  WriteHardValues(job);
  EXPECT_EQ(Query("SELECT i, s FROM python.hard ORDER BY timestamp_ns", {job.target()}, Format::kTable).text,
            "                    i │ s\n"
            "──────────────────────┼───────────\n"
            "  9223372036854775807 │ 🎉,\"a\"\\nb\n"
            " -9223372036854775808 │ \n"
            "                 NULL │ NULL\n"
            "(3 rows)\n");
  EXPECT_EQ(
      Query("SELECT i, s FROM python.hard ORDER BY timestamp_ns", {job.target()}, Format::kMarkdown).text,
      "| i | s |\n|---:|---|\n"
      "| 9223372036854775807 | 🎉,\"a\"<br>b |\n"
      "| -9223372036854775808 |  |\n"
      "| NULL | NULL |\n");
}

// Arrow and Parquet are read back by pyarrow in tests/integration/test_values.py; here: that they are whole.
TEST(RingQuery, BinaryFormatsAreWhole) {
  Job job;
  WriteHardValues(job);
  const Answer arrow = Query(kHard, {job.target()}, Format::kArrow);
  EXPECT_EQ(arrow.problem, "");
  EXPECT_TRUE(arrow.text.starts_with("\xFF\xFF\xFF\xFF"));
  EXPECT_TRUE(arrow.text.ends_with(std::string("\xFF\xFF\xFF\xFF\0\0\0\0", 8)));
  EXPECT_EQ(arrow.text.size() % 8, 0U);
  const Answer parquet = Query(kHard, {job.target()}, Format::kParquet);
  EXPECT_EQ(parquet.problem, "");
  EXPECT_TRUE(parquet.text.starts_with("PAR1") && parquet.text.ends_with("PAR1"));
  // The file is written over for the next result, and empty results are results too.
  const Answer again = Query("SELECT 1 AS a WHERE false", {}, Format::kParquet);
  EXPECT_TRUE(again.text.starts_with("PAR1") && again.text.ends_with("PAR1")) << again.problem;
  EXPECT_LT(again.text.size(), parquet.text.size());
}

TEST(RingQuery, LongStringsAndBrokenOnes) {
  Job job;
  ring::Table& table = job.Add(
      "python.texts", {{"timestamp", ring::ColumnType::kTimestamp}, {"s", ring::ColumnType::kString}});
  const std::string megabyte(1 << 20, 'm');
  for (const std::string_view text : {std::string_view(megabyte), std::string_view("bad \xFF end")}) {
    const Cell row[] = {Cell::Null(), Cell::String(text)};
    ASSERT_EQ(table.Write(row, 2), ring::WriteStatus::kWritten);
  }
  const Answer answer = Query("SELECT s FROM python.texts", {job.target()});
  EXPECT_EQ(answer.text, "s\r\n" + megabyte + "\r\nbad \xEF\xBF\xBD end\r\n");
}

TEST(RingQuery, TablesOfJobsComeAndGo) {
  Job one;
  Job two;
  one.Add("python.mine", {{"timestamp", ring::ColumnType::kTimestamp}, {"a", ring::ColumnType::kInt64}});
  two.Add("python.mine", {{"timestamp", ring::ColumnType::kTimestamp},
                          {"a", ring::ColumnType::kDouble},
                          {"b", ring::ColumnType::kString}});
  EXPECT_NE(Query("SELECT * FROM python.mine", {}).problem.find("does not exist"), std::string::npos);
  const Cell row_one[] = {Cell::Timestamp(1), Cell::Int(1)};
  const Cell row_two[] = {Cell::Timestamp(2), Cell::Double(2.5), Cell::String("x")};
  one.Add("python.mine", {{"timestamp", ring::ColumnType::kTimestamp}, {"a", ring::ColumnType::kInt64}})
      .Write(row_one, 2);
  two.Add("python.mine", {{"timestamp", ring::ColumnType::kTimestamp},
                          {"a", ring::ColumnType::kDouble},
                          {"b", ring::ColumnType::kString}})
      .Write(row_two, 3);
  EXPECT_EQ(Query("SELECT a FROM python.mine", {one.target()}).text, "a\r\n1\r\n");
  const Answer both = Query("SELECT a, b, pid FROM python.mine ORDER BY pid", {one.target(7), two.target(8)});
  EXPECT_EQ(both.problem, "");
  EXPECT_EQ(both.text, "a,b,pid\r\n1.0,,7\r\n2.5,x,8\r\n");
  EXPECT_EQ(Query("SELECT columns FROM probing.tables WHERE table_name = 'python.mine'", {two.target()}).text,
            "columns\r\n8\r\n");
  EXPECT_NE(Query("SELECT * FROM python.mine", {}).problem.find("does not exist"), std::string::npos);
}

TEST(RingQuery, DeclaredTablesAndTheirLosses) {
  Job job;
  ring::Table& gc = job.AddDeclared("python.gc");
  const Cell row[] = {Cell::Null(), Cell::Int(2), Cell::Double(1.5), Cell::Int(10), Cell::Int(0)};
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(gc.Write(row, 5), ring::WriteStatus::kWritten);
  const Answer counted =
      Query("SELECT count(*) >= 10000, sum(duration_ms) / count(*) FROM python.gc", {job.target()});
  EXPECT_NE(counted.text.find("true,1.5"), std::string::npos) << counted.text << counted.problem;
  const Answer drops = Query(
      "SELECT d.rows = c.n, d.written, d.rows + d.overwritten FROM probing.drops d, (SELECT count(*) AS n "
      "FROM python.gc) c"
      " WHERE table_name = 'python.gc'",
      {job.target()});
  EXPECT_NE(drops.text.find("true,30000,30000"), std::string::npos) << drops.text << drops.problem;
  EXPECT_EQ(Query("SELECT count(*) AS n FROM python.gc WHERE timestamp > now() - interval '5 minutes'",
                  {job.target()})
                .text,
            Query("SELECT count(*) AS n FROM python.gc", {job.target()}).text);
}

TEST(RingQuery, ARingThatIsNoneIsAWarningBesideTheOthers) {
  Job job;
  ring::Table& gc = job.AddDeclared("python.gc");
  const Cell row[] = {Cell::Null(), Cell::Int(2)};
  gc.Write(row, 2);
  table::Target broken;
  broken.pid = 9;
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  const ScopedFd writer(ends[1]);
  broken.ring_fds.push_back(std::make_shared<const ScopedFd>(ends[0]));
  const Answer answer = Query("SELECT count(*) AS n FROM python.gc", {job.target(), broken});
  EXPECT_EQ(answer.text, "n\r\n1\r\n") << answer.problem;
  ASSERT_EQ(answer.warnings.size(), 1U);
  EXPECT_TRUE(answer.warnings[0].starts_with("python.gc of 9: ")) << answer.warnings[0];
}

// A statement is prepared once and kept (kept_statements.h): what it sees is what there is now.
class AskedAgain : public testing::Test {
 protected:
  static void Write(Job& job, std::vector<std::int64_t> numbers, const std::string& column = "i") {
    ring::Table& table = job.Add(
        "python.again", {{"timestamp", ring::ColumnType::kTimestamp}, {column, ring::ColumnType::kInt64}});
    for (const std::int64_t number : numbers) {
      const Cell row[] = {Cell::Timestamp(kTimeNs), Cell::Int(number)};
      ASSERT_EQ(table.Write(row, 2), ring::WriteStatus::kWritten);
    }
  }
};

TEST_F(AskedAgain, OfAnotherTarget) {
  Job one;
  Job other;
  Write(one, {1, 2});
  Write(other, {40, 50, 60});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Query("SELECT pid, sum(i) FROM python.again GROUP BY pid", {one.target(7)}).text,
              "pid,sum(i)\r\n7,3\r\n");
    EXPECT_EQ(Query("SELECT pid, sum(i) FROM python.again GROUP BY pid", {other.target(8)}).text,
              "pid,sum(i)\r\n8,150\r\n");
  }
}

TEST_F(AskedAgain, WhenTheTableHasOtherColumns) {
  Job one;
  Job other;
  Write(one, {1});
  Write(other, {2}, "j");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Query("SELECT COLUMNS('^[ij]$') FROM python.again", {one.target()}).text, "i\r\n1\r\n");
    EXPECT_EQ(Query("SELECT COLUMNS('^[ij]$') FROM python.again", {other.target()}).text, "j\r\n2\r\n");
  }
}

TEST_F(AskedAgain, AfterItFailed) {
  Job bad;
  Job good;
  Write(bad, {1, 300});
  Write(good, {1, 2});
  constexpr char kSql[] = "SELECT sum(i::TINYINT) AS n FROM python.again";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Query(kSql, {good.target()}).text, "n\r\n3\r\n");
    EXPECT_NE(Query(kSql, {bad.target()}).problem, "");
  }
}

TEST_F(AskedAgain, NowIsNow) {
  const std::string first = Query("SELECT epoch_us(now()) AS t", {}).text;
  const std::string second = Query("SELECT epoch_us(now()) AS t", {}).text;
  EXPECT_EQ(first.size(), second.size());
  EXPECT_LT(first, second);
}

}  // namespace
}  // namespace probing::query
