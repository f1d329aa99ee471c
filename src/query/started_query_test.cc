#include "query/started_query.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "base/file.h"
#include "query/client.h"

namespace probing::query {
namespace {

class StartedQueryTest : public testing::Test {
 protected:
  StartedQueryTest() : client_(Options()) {}

  static ClientOptions Options() {
    ClientOptions options;
    const Result<std::string> self = ReadLink("/proc/self/exe");
    options.program = self->substr(0, self->rfind('/')) + "/query_worker";
    options.arguments = {};
    options.max_workers = 1;
    return options;
  }
  static QueryRequest Ask(std::string sql) {
    QueryRequest request;
    request.sql = std::move(sql);
    request.format.format = Format::kCsv;
    request.limits.timeout_ms = 5000;
    return request;
  }
  static void Await(const StartedQuery& query) {
    pollfd waiting{query.socket(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, 20'000), 1);
  }

  QueryClient client_;
  const QueryRequest small_ = Ask("SELECT 42 AS answer");
};

TEST_F(StartedQueryTest, ASmallAnswerIsTakenAtOnce) {
  EXPECT_EQ(client_.Start(small_), nullptr);  // no worker yet
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  for (int i = 0; i < 3; ++i) {
    const auto query = client_.Start(small_);
    ASSERT_NE(query, nullptr);
    EXPECT_EQ(client_.Start(small_), nullptr);  // it is busy
    Await(*query);
    const auto answer = query->Take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "answer\r\n42\r\n");
  }
}

TEST_F(StartedQueryTest, TheRestOfALongAnswerIsWaitedFor) {
  const QueryRequest request = Ask("SELECT * FROM range(200000)");
  ASSERT_TRUE(client_.Warm(request.limits.memory_bytes).ok());
  const auto query = client_.Start(request);
  Await(*query);
  ASSERT_FALSE(query->Take());
  const QueryAnswer answer = query->Finish();
  EXPECT_EQ(answer.rows, 200000);
  EXPECT_TRUE(answer.body.starts_with("range\r\n0\r\n1\r\n") && answer.body.ends_with("\r\n199999\r\n"));
}

TEST_F(StartedQueryTest, AWorkerThatHasGoneIsReplaced) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const auto pid = static_cast<pid_t>(client_.worker_pids().at(0));
  kill(pid, SIGSTOP);  // so that it takes the query and does not answer
  const auto query = client_.Start(small_);
  ASSERT_NE(query, nullptr);
  kill(pid, SIGKILL);
  Await(*query);
  EXPECT_FALSE(query->Take());
  EXPECT_EQ(query->Finish().body, "answer\r\n42\r\n");
}

TEST_F(StartedQueryTest, ASmallOneThatNobodyWantsAnyMoreKeepsItsWorker) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const auto pids = client_.worker_pids();
  QueryRequest unwanted = small_;
  unwanted.cancellation = std::make_shared<Cancellation>();
  const auto query = client_.Start(unwanted);
  ASSERT_NE(query, nullptr);
  Await(*query);  // or a busy machine could take longer than it is waited for
  unwanted.cancellation->Cancel();
  (void)query->Finish();
  EXPECT_EQ(client_.worker_pids(), pids);
}

TEST_F(StartedQueryTest, OneThatIsDroppedEndsItsWorker) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const auto pid = static_cast<pid_t>(client_.worker_pids().at(0));
  client_.Start(small_).reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(client_.Run(small_).body, "answer\r\n42\r\n");  // there is room for another one
}

TEST_F(StartedQueryTest, SeveralAreSentAtOnceAndAnsweredInTheirOrder) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const QueryRequest long_one = Ask("SELECT * FROM range(200000)");
  const QueryRequest last_one = Ask("SELECT 43 AS answer");
  const auto first = client_.Start(small_);
  const auto second = first->SendNext(long_one);
  const auto third = second->SendNext(last_one);
  ASSERT_NE(third, nullptr);
  Await(*first);
  EXPECT_EQ(first->Take()->body, "answer\r\n42\r\n");
  EXPECT_TRUE(client_.is_full()) << "the worker has more to do";
  Await(*second);
  EXPECT_FALSE(second->Take());
  EXPECT_EQ(second->Finish().rows, 200000);
  Await(*third);
  EXPECT_EQ(third->Take()->body, "answer\r\n43\r\n");
  EXPECT_EQ(client_.worker_pids().size(), 1);
  EXPECT_FALSE(client_.is_full());
}

TEST_F(StartedQueryTest, AQueryMayComeWhileRowsForTheOneBeforeAreMade) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  QueryRequest needs_rows = Ask("SELECT count(name) AS n FROM python.tensors");
  needs_rows.targets.resize(1);
  needs_rows.targets[0].pid = 7;
  needs_rows.targets[0].selected = true;
  needs_rows.provider = [](const table::Table& table, const table::Target*,
                           const std::vector<std::size_t>& columns) -> Result<table::Rows> {
    return table::Rows(table::TypesOf(table, columns));
  };
  const auto first = client_.Start(needs_rows);
  const auto second = first->SendNext(small_);
  Await(*first);
  ASSERT_FALSE(first->Take());
  const QueryAnswer answer = first->Finish();
  EXPECT_EQ(answer.error ? answer.error->message : "", "");
  EXPECT_EQ(answer.body, "n\r\n0\r\n");
  ASSERT_FALSE(second->is_orphan());
  Await(*second);
  EXPECT_EQ(second->Take()->body, "answer\r\n42\r\n");
}

TEST_F(StartedQueryTest, ThoseBehindAWorkersEndAreAskedAgain) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const auto pid = static_cast<pid_t>(client_.worker_pids().at(0));
  kill(pid, SIGSTOP);
  const auto first = client_.Start(small_);
  const auto second = first->SendNext(small_);
  ASSERT_NE(second, nullptr);
  kill(pid, SIGKILL);
  Await(*first);
  EXPECT_FALSE(first->Take());
  EXPECT_EQ(first->Finish().body, "answer\r\n42\r\n");
  EXPECT_TRUE(second->is_orphan());
  EXPECT_EQ(second->Finish().body, "answer\r\n42\r\n");
}

TEST_F(StartedQueryTest, OneThatIsAbandonedEndsTheWorkerAfterTheOneBefore) {
  ASSERT_TRUE(client_.Warm(small_.limits.memory_bytes).ok());
  const auto first = client_.Start(small_);
  auto second = first->SendNext(small_);
  second->Abandon();
  second.reset();
  Await(*first);
  EXPECT_EQ(first->Take()->body, "answer\r\n42\r\n");
  EXPECT_TRUE(client_.worker_pids().empty());
  EXPECT_EQ(client_.Run(small_).body, "answer\r\n42\r\n");
}

}  // namespace
}  // namespace probing::query
