// The question of `probing why`, answered: for whom processes wait, as text and as JSON.
//
//   ASSIGN_OR_RETURN(const why::Answer answer, why::Explain({pid}));
//   why::AnswerToText(answer);
//   why::Sentence(answer, pid);   // one line, as evidence: "waits for pid 4720 …, which runs load
//   (data.py:12)"
//
// Takes some milliseconds for each process on the way, and never more than a second. Stops nothing.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "why/model.h"

namespace probing::why {

struct Answer {
  Graph graph;
  std::vector<Cause> causes;  // those of the process that was asked for first
  bool is_whole = true;       // false: there was no time for all
  bool is_about_one = true;   // one process was asked for
};

// Of a single process all its threads; of several, only waits that lead beyond a thread. kNotFound: one of
// them has ended. kPermission: one may not be looked into. REQUIRES: at least one.
Result<Answer> Explain(const std::vector<pid_t>& pids);

// The processes of this host that have Python and may be read.
std::vector<pid_t> FindPythons();

enum class Emphasis : std::uint8_t { kNone, kTerminal };
std::string AnswerToText(const Answer& answer, Emphasis emphasis = Emphasis::kNone);
std::string AnswerToJson(const Answer& answer);

// "" when this process waits for nothing but itself.
std::string Sentence(const Answer& answer, pid_t pid);

}  // namespace probing::why
