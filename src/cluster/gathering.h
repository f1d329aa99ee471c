// The rows of other hosts for one query.
//
// Three rounds of questions, each to all of them at once: who they are (unless that is known), how many rows
// there are, and the rows. Before the last the sum is held against the budget, so that nothing is shipped
// that would not be used. A host that does not answer in its time is left out, also of the later tables of
// the query, and the receipt says so. Used by one thread at a time; the receipt when the query has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/members.h"
#include "cluster/receipt.h"
#include "query/request.h"
#include "wire/address.h"

namespace probing::cluster {

struct GatheringOptions {
  Wanted wanted;
  std::int64_t timeout_ms = 3000;      // for each table, all hosts and rounds together
  std::int64_t max_bytes = 64L << 20;  // for the whole query
};

// Who is there.
struct Company {
  std::vector<Member> members;
  std::int64_t epoch = 0;
};

class Gathering {
 public:
  Gathering(Members& members, GatheringOptions options) : members_(members), options_(std::move(options)) {}

  // A text of rows for each host that has answered (query/gathered_rows.h). An error only when there is
  // more than the budget allows.
  Result<std::vector<std::string>> Gather(const query::GatherRequest& request);

  bool has_peers() const { return !options_.wanted.sources.empty(); }

  // Who is there, for cluster.nodes.
  Company Meet();

  Receipt receipt() const;

 private:
  struct Asked {
    Member member;
    std::string answer;
    std::int64_t rows = 0;       // that it has, once it was asked
    std::int64_t bytes = 0;      // that these take on the way
    std::int64_t max_bytes = 0;  // of its next answer
  };
  std::vector<Asked> Answering(const Deadline& deadline);
  // Leaves those that have answered, with their answers.
  void AskAll(std::vector<Asked>& asked, const std::string& sql, const std::vector<table::Type>& types,
              const Deadline& deadline);
  void Fail(const Member& member, std::string reason);
  // What each of them has. Nothing larger is taken from it then, give or take what is new.
  Result<void> Count(std::vector<Asked>& asked, const query::GatherRequest& request,
                     const Deadline& deadline);
  // What each would send; nothing is brought.
  Result<void> Plan(std::vector<Asked> asked, const query::GatherRequest& request, const Deadline& deadline);
  void NoteRestart(Member& member, const std::string& instance);

  Members& members_;
  const GatheringOptions options_;
  Receipt receipt_;
};

}  // namespace probing::cluster
