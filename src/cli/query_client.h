// Asks probingd a question in SQL.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command.h"
#include "cli/daemon_client.h"

namespace probing::cli {

// What people may ask for: --format, .mode.
inline constexpr std::string_view kQueryFormats = "table|csv|json|jsonl|arrow|parquet|markdown";

struct Question {
  std::optional<pid_t> target;                    // without one: all probed processes of this host
  std::string directory;                          // of history files, instead of processes
  std::string store;                              // clickhouse://…, instead of processes
  std::optional<std::string> job = std::nullopt;  // its processes only; "": of the only job there is
  std::string sql;
  std::string format = "table";  // table, csv, json, jsonl, arrow, parquet, markdown
};

// About what a command line names; without SQL.
Result<Question> QuestionOf(const Invocation& invocation);

// The result in that format. Tables are as wide as the terminal, or as they need to be.
Result<std::string> Query(const Question& question);

// What is shown of an answer in the format "table": on a terminal its header is bold and its lines are faint.
std::string PaintedTable(const std::string& table);

// The same for a question that other hosts may be asked, too: whether all of them have answered.
Result<Bytes> QueryHosts(const Question& question);

}  // namespace probing::cli
