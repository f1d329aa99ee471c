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

}  // namespace
}  // namespace probing::query
