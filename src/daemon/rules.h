// Rules of `probing diagnose`: what can be wrong with a job, each as one SQL file.
//
// A file begins with what it is about and goes on with one statement:
//
//   -- class: straggler
//   -- also: data_stall (classes that the column `class` may give instead; most rules have none)
//   -- about: One rank needs longer than the others.
//   SELECT …
//
// Every row that the statement gives is a finding. Columns by name: `pids` and `ranks` (lists, or one
// number), `host` (where the first of them is), `severity` (error or warning), `evidence` (a sentence),
// `next` (the command to run now, on that host), `since_ns` (when it began). In the statement {patience}
// stands for the seconds that something has to last, {window} for those after which a death is no news,
// {asked} for whether the user wants to hear of every death, and {places} for a query with host, pid and
// `place`: the innermost frame of the user's own code in each main thread, and what it is below. Ours travel
// inside probingd (rules/*.sql); the user's own are in ~/.config/probing/diagnose, where one of the same name
// takes the place of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing::daemon {

struct Rule {
  std::string name;        // of the file, without .sql
  std::string class_name;  // what a finding is called
  std::string also;        // classes that its column `class` may give it instead
  std::string about;
  std::string sql;

  bool MayFind(std::string_view asked) const;
};

// kUsage, with the name of the file, when it says no class or has no statement.
Result<Rule> ParseRule(std::string name, std::string_view text);

struct RuleValues {
  double patience_s = 10;
  double window_s = 600;
  bool all_deaths = false;
};
// The statement with its {words} replaced.
std::string RuleSql(const Rule& rule, const RuleValues& values);

// Ours and those in `directory` ("" for none), by name. Files that cannot be used are named in `problems`.
std::vector<Rule> LoadRules(const std::string& directory, std::vector<std::string>& problems);

// The same for a store, whose SQL is another one: ours that can be said in it. What a store cannot be asked
// for (it has no stacks) and the user's own in `directory` are named in `problems`.
std::vector<Rule> LoadStoreRules(const std::string& directory, std::vector<std::string>& problems);

// Made by the build from rules/*.sql and rules/clickhouse/*.sql.
struct RuleText {
  std::string_view name;
  std::string_view text;
};
const std::vector<RuleText>& OwnRules();
const std::vector<RuleText>& OwnStoreRules();

}  // namespace probing::daemon
