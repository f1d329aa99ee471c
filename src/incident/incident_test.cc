#include <gtest/gtest.h>

#include <cstring>

#include "incident/contents.h"
#include "incident/writer.h"
#include "table/registry.h"
#include "table/ring_pool.h"

namespace probing::incident {
namespace {

using table::Type;
using table::Value;

constexpr std::int64_t kNow = 1'700'000'000'000'000'000;

const std::vector<Column> kProcess{
    {"pid", Type::kInt64}, {"rank", Type::kInt64}, {"host", Type::kString}, {"job", Type::kString}};

// Times travel as numbers.
std::string Frame(const std::vector<Column>& columns, const std::vector<std::vector<Value>>& lines) {
  std::vector<Type> types;
  for (const Column& column : columns)
    types.push_back(column.type == Type::kTimestamp ? Type::kInt64 : column.type);
  table::Rows rows(types);
  for (const std::vector<Value>& line : lines) rows.Add(line);
  return rows.Encode();
}

void Add(Writer& writer, const std::string& name, std::vector<Column> columns,
         const std::vector<std::vector<Value>>& lines) {
  TableHead head{.name = name, .own = columns.size(), .rows = lines.size()};
  columns.insert(columns.end(), kProcess.begin(), kProcess.end());
  head.columns = columns;
  writer.Add(std::move(head), MakeBlock(Frame(columns, lines)));
}

std::string SmallFile() {
  Writer writer;
  Add(writer, "python.stacks",
      {{"depth", Type::kInt64}, {"func", Type::kString}, {"of_tomorrow", Type::kDouble}},
      {{std::int64_t{0}, "wait", 1.5, std::int64_t{7}, std::int64_t{0}, "here", "job"},
       {std::int64_t{1}, "main", 1.5, std::int64_t{7}, std::int64_t{0}, "here", "job"},
       {std::int64_t{0}, "train", 1.5, std::int64_t{8}, std::int64_t{1}, "here", "job"}});
  Add(writer, "python.gc", {{"timestamp", Type::kTimestamp}, {"generation", Type::kInt64}},
      {{kNow - 5, std::int64_t{2}, std::int64_t{7}, std::int64_t{0}, "here", "job"}});
  Add(writer, "python.mine", {{"timestamp", Type::kTimestamp}, {"secret", Type::kString}},
      {{kNow - 3, "a text", std::int64_t{8}, std::int64_t{1}, "here", "job"}});
  return writer.Finish({{"recorded_ns", kNow}, {"note", "my-token-4711"}}, {"my-token-4711"});
}

std::size_t ColumnOf(const table::Table& table, std::string_view name) {
  std::size_t i = 0;
  while (table.columns[i].name != name) ++i;
  return i;
}

TEST(Incident, ProcessesKeepTheirNumbersAndLiveTablesTheirRows) {
  const auto contents = Contents::Read(SmallFile());
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  EXPECT_EQ((*contents)->recorded_ns(), kNow);
  EXPECT_TRUE((*contents)->problems().empty());
  ASSERT_EQ((*contents)->targets().size(), 2U);
  const table::Target& first = (*contents)->targets()[0];
  EXPECT_EQ(first.pid, 7);
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(first.host, "here");
  EXPECT_EQ(first.job, "job");
  const table::Table& stacks = *table::FindTable("python.stacks");
  const table::Rows rows = (*contents)->Provide(
      stacks, &first, {ColumnOf(stacks, "func"), ColumnOf(stacks, "lineno"), ColumnOf(stacks, "depth")});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.at(0, 1), Value("main"));
  EXPECT_EQ(rows.at(1, 1), Value());  // the file has no such column
  EXPECT_EQ(rows.at(2, 1), Value(std::int64_t{1}));
}

TEST(Incident, StoredTablesAreRingsAlsoThoseOfTheJob) {
  const auto contents = Contents::Read(SmallFile());
  ASSERT_TRUE(contents.ok());
  std::vector<std::string> names;
  for (const table::Target& target : (*contents)->targets()) {
    ASSERT_EQ(target.ring_fds.size(), 1U);
    const Result<table::RingLease> ring = table::LeaseRing(*target.ring_fds[0]);
    ASSERT_TRUE(ring.ok());
    for (const ring::TableInfo& info : ring.value()->Tables()) names.push_back(info.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"python.gc", "python.mine"}));
}

TEST(Incident, ATableThatIsNotInTheFileSaysSo) {
  const auto contents = Contents::Read(SmallFile());
  ASSERT_TRUE(contents.ok());
  const table::Table& tensors = *table::FindTable("python.tensors");
  const table::Rows rows = (*contents)->Provide(tensors, &(*contents)->targets()[0], {0});
  EXPECT_EQ(rows.size(), 0U);
  EXPECT_EQ(rows.note(), "python.tensors is not in the incident file");
}

TEST(Incident, SecretsAreStarredOut) {
  const std::string file = SmallFile();
  EXPECT_EQ(file.find("my-token-4711"), std::string::npos);
  EXPECT_NE(file.find("*************"), std::string::npos);
  std::string text = "a short one";
  Redact(text, {"short"});
  EXPECT_EQ(text, "a short one");
}

TEST(Incident, EveryCutAndEveryChangedByteIsAnError) {
  const std::string file = SmallFile();
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto contents = Contents::Read(std::string_view(file).substr(0, size));
    ASSERT_FALSE(contents.ok()) << size;
    EXPECT_NE(contents.error().message.find("incident"), std::string::npos);
  }
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    ASSERT_FALSE(Contents::Read(changed).ok()) << at;
  }
  EXPECT_FALSE(Contents::Read(file + "x").ok());
}

TEST(Incident, AFileOfAnotherVersionSaysWhichOneIsRead) {
  std::string file = SmallFile();
  const std::uint32_t version = wire::kIncidentVersion + 1;
  std::memcpy(file.data() + offsetof(Head, version), &version, sizeof version);
  const auto contents = Contents::Read(file);
  ASSERT_FALSE(contents.ok());
  EXPECT_EQ(contents.error().message, "the incident file is of version 2, and version 1 is read");
}

TEST(Incident, WhatAFileSaysOfItsSizeIsNotBelieved) {
  Writer writer;
  TableHead head{.name = "python.gc", .columns = {{"timestamp", Type::kTimestamp}}, .own = 1};
  head.rows = std::uint64_t{1} << 62;
  writer.Add(head, MakeBlock(Frame(head.columns, {})));
  EXPECT_FALSE(Contents::Read(writer.Finish({{"recorded_ns", kNow}}, {})).ok());
}

}  // namespace
}  // namespace probing::incident
