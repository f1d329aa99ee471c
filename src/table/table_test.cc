#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/file.h"
#include "table/reference.h"
#include "table/registry.h"
#include "table/rows.h"
#include "table/text.h"
#include "table/user_table.h"
#include "table/written_rows.h"

namespace probing::table {
namespace {

bool IsName(std::string_view text) {
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return !text.empty();
}

TEST(Declarations, AreComplete) {
  for (const Table* table : AllTables()) {
    SCOPED_TRACE(table->name);
    EXPECT_TRUE(IsName(SchemaOf(table->name)));
    EXPECT_TRUE(IsName(LastNameOf(table->name)));
    EXPECT_FALSE(table->doc.empty());
    // A stored table may have columns that its SQL computes from the others.
    if (table->kind != Kind::kStored) EXPECT_EQ(table->kind == Kind::kView, !table->sql.empty());
    std::set<std::string_view> names;
    for (const Column& column : SqlColumns(*table)) {
      EXPECT_TRUE(IsName(column.name));
      EXPECT_FALSE(column.doc.empty()) << column.name;
      EXPECT_EQ(column.doc.find('\n'), std::string_view::npos);
      EXPECT_TRUE(names.insert(column.name).second) << column.name << " is there twice";
    }
    for (const char* name : {"pid", "rank", "host", "job"}) EXPECT_TRUE(names.contains(name));
    if (table->kind == Kind::kStored) {
      ASSERT_FALSE(table->columns.empty());
      EXPECT_EQ(table->columns[0].name, "timestamp") << "the ring's first column is the time";
      EXPECT_EQ(table->columns[0].type, Type::kTimestamp);
    }
  }
}

TEST(Declarations, AreFoundByName) {
  ASSERT_NE(FindTable("python.torch_trace"), nullptr);
  EXPECT_EQ(FindTable("python.torch_trace")->name, "python.torch_trace");
  EXPECT_EQ(FindTable("python.nosuch"), nullptr);
  EXPECT_EQ(FindTable(""), nullptr);
}

TEST(Declarations, HaveTheirPage) {
  const Result<std::string> page = ReadFile(PROBING_TEST_ROOT "/../../docs/reference/tables.md");
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(*page, Reference()) << "docs/reference/tables.md is out of date: run `make reference`";
}

TEST(Reference, RowsOfWrittenTablesAreUpToDate) {
  const Result<std::string> header = ReadFile(PROBING_TEST_ROOT "/../../src/table/written_rows.h");
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, WrittenRows()) << "src/table/written_rows.h is out of date: run `make reference`";
}

TEST(WrittenRow, HasItsCellsWhereTheDeclarationSays) {
  const PythonSpansRow row{.timestamp = 5, .name = "probing.wait", .duration_ms = 0.5};
  const auto cells = row.Cells();
  const Table& table = *FindTable(PythonSpansRow::kTable);
  ASSERT_EQ(cells.size(), table.columns.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view name = table.columns[i].name;
    const auto expected = name == "timestamp"     ? ring::Cell::Kind::kTimestamp
                          : name == "name"        ? ring::Cell::Kind::kString
                          : name == "duration_ms" ? ring::Cell::Kind::kDouble
                                                  : ring::Cell::Kind::kNull;
    EXPECT_EQ(cells[i].kind(), expected) << name;
  }
  EXPECT_EQ(cells[PythonSpansRow::kName].text(), "probing.wait");
}

TEST(TextForm, KeepsShortAndLongTexts) {
  for (const std::size_t size : {0, 1, 12, 13, 1 << 20}) {
    const std::string text(size, 'x');
    EXPECT_EQ(Text(text).view(), text);
  }
}

TEST(Utf8, IsCheckedAndRepaired) {
  EXPECT_TRUE(IsUtf8("plain text of more than eight bytes, and 🎉 é 漢"));
  for (const char* bad : {"\xFF", "ab\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"})
    EXPECT_FALSE(IsUtf8(bad));
  EXPECT_EQ(ToUtf8("a\xFF"
                   "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_TRUE(IsUtf8(ToUtf8("\xF0\x9F\x8E")));
}

Rows SampleRows() {
  Rows rows({Type::kInt64, Type::kDouble, Type::kBool, Type::kString, Type::kBytes});
  rows.Add({std::numeric_limits<std::int64_t>::max(), 0.5, true, std::string(""), std::string("\0\xFF", 2)});
  rows.Add({Value(), Value(), Value(), Value(), Value()});
  return rows;
}

TEST(RowsForm, TravelsUnchanged) {
  const Rows rows = SampleRows();
  const Result<Rows> back = Rows::Decode(rows.Encode());
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->size(), 2U);
  for (std::size_t c = 0; c < rows.width(); ++c) {
    for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(back->at(c, r), rows.at(c, r));
  }
}

TEST(RowsForm, DamagedBytesAreAnError) {
  const std::string good = SampleRows().Encode();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(Rows::Decode(good.substr(0, size)).ok());
  EXPECT_FALSE(Rows::Decode(good + "x").ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xFF);
    (void)Rows::Decode(bad);  // an error or other values, but no harm
  }
}

TEST(UserTables, TakeTheWiderTypeWhereTargetsDisagree) {
  UserTable table("python.mine");
  table.AddColumn("timestamp", Type::kTimestamp);
  table.AddColumn("a", Type::kInt64);
  table.AddColumn("A", Type::kDouble);
  table.AddColumn("b", Type::kBool);
  table.AddColumn("b", Type::kString);
  ASSERT_EQ(table.table().columns.size(), 3U);
  EXPECT_EQ(table.table().columns[1].type, Type::kDouble);
  EXPECT_EQ(table.table().columns[2].type, Type::kString);
  EXPECT_EQ(SqlColumns(table.table()).size(), 8U);  // and pid, rank, host, job, timestamp_ns
}

}  // namespace
}  // namespace probing::table
