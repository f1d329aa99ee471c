// Runs tests/sql/*.test: SQL in, rows out. The form is sqllogictest's (tests/sql/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/file.h"
#include "query/sample_test.h"
#include "table/registry.h"

namespace probing::query {
namespace {

const std::string kFolder = PROBING_TEST_ROOT "/../sql";

std::vector<std::string> TestFiles() {
  std::vector<std::string> files;
  const Result<std::vector<std::string>> names = ListDirectory(kFolder);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (name.ends_with(".test")) files.push_back(name.substr(0, name.size() - 5));
  }
  std::ranges::sort(files);
  return files;
}

// One entry of a file: a line that says what is expected, the SQL, and the expected rows.
struct Entry {
  int line = 0;
  std::string kind;   // "query", "statement"
  std::string types;  // of a query; "" for any
  bool sorted = false;
  Limits limits;
  std::string sql;
  std::vector<std::string> expected;
};

std::vector<Entry> ReadEntries(const std::string& text) {
  std::vector<Entry> entries;
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  enum { kOutside, kSql, kExpected } state = kOutside;
  while (std::getline(lines, line)) {
    ++number;
    if (line.starts_with("#")) continue;
    if (line.empty()) {
      state = kOutside;
    } else if (state == kOutside) {
      std::istringstream words(line);
      Entry& entry = entries.emplace_back();
      entry.line = number;
      std::string word;
      words >> entry.kind;
      while (words >> word) {
        if (word == "rowsort")
          entry.sorted = true;
        else if (word.starts_with("timeout_ms="))
          entry.limits.timeout_ms = std::stoll(word.substr(11));
        else if (word.starts_with("rows="))
          entry.limits.rows = std::stoll(word.substr(5));
        else
          entry.types = word;
      }
      state = kSql;
    } else if (line == "----") {
      state = kExpected;
    } else if (state == kSql) {
      entries.back().sql += line + "\n";
    } else {
      entries.back().expected.push_back(line);
    }
  }
  return entries;
}

void Check(const std::string& file, const Entry& entry) {
  SCOPED_TRACE(file + ":" + std::to_string(entry.line));
  TextResult result = RunSample(entry.sql, entry.limits);
  if (entry.kind == "statement" && entry.types == "error") {
    ASSERT_TRUE(result.error) << "this should have been refused: " << entry.sql;
    const std::string text = result.error->Text(entry.sql);
    for (const std::string& part : entry.expected) EXPECT_NE(text.find(part), std::string::npos) << text;
    return;
  }
  ASSERT_FALSE(result.error) << result.error->Text(entry.sql);
  if (entry.kind == "statement") return;
  ASSERT_EQ(entry.kind, "query");
  if (!entry.types.empty()) {
    EXPECT_EQ(result.types, entry.types);
  }
  if (entry.sorted) std::ranges::sort(result.rows);
  EXPECT_EQ(result.rows, entry.expected);
}

class SqlFile : public ::testing::TestWithParam<std::string> {};

TEST_P(SqlFile, Holds) {
  const std::string path = kFolder + "/" + GetParam() + ".test";
  const Result<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.ok());
  const std::vector<Entry> entries = ReadEntries(*text);
  ASSERT_FALSE(entries.empty());
  for (const Entry& entry : entries) Check(GetParam() + ".test", entry);
}

INSTANTIATE_TEST_SUITE_P(Tests, SqlFile, ::testing::ValuesIn(TestFiles()), [](const auto& file) {
  std::string name = file.param;
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(SqlFiles, EveryTableHasOne) {
  const std::vector<std::string> files = TestFiles();
  for (const table::Table* table : table::AllTables()) {
    EXPECT_NE(std::ranges::find(files, table->name), files.end())
        << "please write tests/sql/" << table->name << ".test";
  }
}

}  // namespace
}  // namespace probing::query
