#include "query/client.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"
#include "table/registry.h"

namespace probing::query {
namespace {

std::string Folder() {
  const Result<std::string> self = ReadLink("/proc/self/exe");
  return self->substr(0, self->rfind('/'));
}

ClientOptions Options() {
  ClientOptions options;
  options.program = Folder() + "/query_worker";
  options.arguments = {};
  return options;
}

QueryRequest Ask(std::string sql, Format format = Format::kCsv) {
  QueryRequest request;
  request.sql = std::move(sql);
  request.format.format = format;
  request.limits.timeout_ms = 5000;
  return request;
}

std::string Problem(const QueryAnswer& answer) { return answer.error ? answer.error->message : ""; }

TEST(Client, AnswersAndKeepsItsWorker) {
  QueryClient client(Options());
  const QueryAnswer first = client.Run(Ask("SELECT 42 AS answer"));
  ASSERT_EQ(Problem(first), "");
  EXPECT_EQ(first.body, "answer\r\n42\r\n");
  EXPECT_EQ(first.rows, 1);
  const auto pids = client.worker_pids();
  ASSERT_EQ(pids.size(), 1U);
  EXPECT_EQ(client.Run(Ask("SELECT 43 AS answer")).body, "answer\r\n43\r\n");
  EXPECT_EQ(client.worker_pids(), pids);
}

TEST(Client, RowsForProgramsKeepColumnsOfTheSameName) {
  QueryClient client(Options());
  const QueryAnswer answer = client.Run(Ask("SELECT 1 AS x, NULL AS x, 'a' AS y", Format::kRows));
  ASSERT_EQ(Problem(answer), "");
  EXPECT_EQ(
      answer.body,
      R"({"columns":[{"name":"x","type":"BIGINT"},{"name":"x","type":"BIGINT"},{"name":"y","type":"VARCHAR"}],)"
      "\"rows\":[\n[1,null,\"a\"]]}\n");
}

TEST(Client, AskForRowsThatOnlyTheParentCanMake) {
  QueryClient client(Options());
  QueryRequest request = Ask("SELECT name, bytes, pid, host FROM python.tensors ORDER BY name");
  request.targets.resize(2);
  request.targets[0].pid = 7;
  request.targets[0].host = "h";
  request.targets[1].pid = 8;
  request.provider = [](const table::Table& table, const table::Target* target,
                        const std::vector<std::size_t>& columns) -> Result<table::Rows> {
    if (target->pid == 8) return Error{Code::kNotFound, "process 8 has ended", ""};
    table::Rows rows(table::TypesOf(table, columns));
    std::vector<table::Value> row;
    for (const std::size_t column : columns)
      row.push_back(table.columns[column].name == "name" ? table::Value(std::string("w"))
                                                         : table::Value(INT64_MAX));
    rows.Add(row);
    return rows;
  };
  const QueryAnswer answer = client.Run(request);
  ASSERT_EQ(Problem(answer), "");
  EXPECT_EQ(answer.body, "name,bytes,pid,host\r\nw,9223372036854775807,7,h\r\n");
  ASSERT_EQ(answer.warnings.size(), 1U);
  EXPECT_EQ(answer.warnings[0], "python.tensors of 8: process 8 has ended");
}

TEST(Client, SaysThatNobodyMakesTheRows) {
  QueryClient client(Options());
  QueryRequest request = Ask("SELECT * FROM python.tensors");
  request.targets.resize(1);
  EXPECT_NE(Problem(client.Run(request)).find("nobody here can produce its rows"), std::string::npos);
}

TEST(Client, GiantValuesCostTheQueryAndNothingElse) {
#ifdef PROBING_SANITIZED
  GTEST_SKIP() << "the process has no limit of its own then";
#endif
  QueryClient client(Options());
  for (const char* sql : {"SELECT length(repeat('x', 2000000000))", "SELECT repeat('x', 2000000000)",
                          "SELECT list(repeat('x', 1000000)) FROM range(1000)"}) {
    const QueryAnswer answer = client.Run(Ask(sql));
    ASSERT_TRUE(answer.error) << sql;
    EXPECT_EQ(answer.error->limit, "probing.query.memory") << answer.error->message;
    EXPECT_EQ(client.Run(Ask("SELECT 1 AS a")).body, "a\r\n1\r\n") << sql;
  }
}

TEST(Client, AQueryThatNobodyWaitsForEnds) {
  ClientOptions options = Options();
  options.max_workers = 1;
  QueryClient client(options);
  QueryRequest endless = Ask("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b");
  endless.limits.timeout_ms = 600'000;
  endless.cancellation = std::make_shared<Cancellation>();
  QueryRequest queued = endless;  // behind the other, for which it would wait a minute
  queued.cancellation = std::make_shared<Cancellation>();
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    queued.cancellation->Cancel();
    endless.cancellation->Cancel();
  });
  QueryAnswer second;
  std::thread other([&] { second = client.Run(queued); });
  const QueryAnswer first = client.Run(endless);
  canceller.join();
  other.join();
  EXPECT_EQ(Problem(first), "the query was cancelled");
  EXPECT_EQ(Problem(second), "the query was cancelled");
  EXPECT_EQ(client.Run(Ask("SELECT 1 AS a")).body, "a\r\n1\r\n");
}

TEST(Client, AWorkerThatDiesIsReplaced) {
  QueryClient client(Options());
  ASSERT_EQ(Problem(client.Run(Ask("SELECT 1"))), "");
  const auto pids = client.worker_pids();
  ASSERT_EQ(pids.size(), 1U);
  ASSERT_EQ(kill(static_cast<pid_t>(pids[0]), SIGKILL), 0);
  EXPECT_EQ(client.Run(Ask("SELECT 2 AS a")).body, "a\r\n2\r\n");
  EXPECT_NE(client.worker_pids(), pids);
}

TEST(Client, AWorkerThatDoesNotStopIsKilled) {
  QueryClient client(Options());
  ASSERT_EQ(Problem(client.Run(Ask("SELECT 1"))), "");
  const auto pids = client.worker_pids();
  ASSERT_EQ(kill(static_cast<pid_t>(pids[0]), SIGSTOP), 0);
  QueryRequest request = Ask("SELECT 1");
  request.limits.timeout_ms = 100;
  const QueryAnswer answer = client.Run(request);
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->limit, "probing.query.timeout");
  EXPECT_EQ(kill(static_cast<pid_t>(pids[0]), 0), -1);
}

TEST(Client, AnIdleWorkerEnds) {
  ClientOptions options = Options();
  options.idle_ms = 50;
  QueryClient client(options);
  ASSERT_EQ(Problem(client.Run(Ask("SELECT 1"))), "");
  const Deadline deadline = Deadline::AfterMs(10'000);
  while (!client.worker_pids().empty() && !deadline.passed()) SleepUs(5000);
  EXPECT_TRUE(client.worker_pids().empty());
}

TEST(Client, TwoQueriesRunAtTheSameTime) {
  QueryClient client(Options());
  std::vector<std::thread> threads;
  std::vector<std::string> bodies(4);
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    threads.emplace_back(
        [&, i] { bodies[i] = client.Run(Ask("SELECT " + std::to_string(i) + " AS a")).body; });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(bodies[i], "a\r\n" + std::to_string(i) + "\r\n");
  EXPECT_LE(client.worker_pids().size(), 2U);
}

TEST(Client, AMissingProgramIsAnError) {
  ClientOptions options = Options();
  options.program = "/nonexistent/probingd";
  QueryClient client(options);
  EXPECT_NE(Problem(client.Run(Ask("SELECT 1"))).find("start the query worker"), std::string::npos);
}

TEST(Client, TheMemoryLimitOfARequestHolds) {
  QueryClient client(Options());
  QueryRequest request = Ask("SELECT current_setting('memory_limit') AS m");
  request.limits.memory_bytes = 64 << 20;
  EXPECT_EQ(client.Run(request).body, "m\r\n64.0 MiB\r\n");
  request.limits.memory_bytes = 128 << 20;
  EXPECT_EQ(client.Run(request).body, "m\r\n128.0 MiB\r\n");
}

}  // namespace
}  // namespace probing::query
