#include "query/limits.h"

#include <string>

namespace probing::query {
namespace {

std::string SecondsText(std::int64_t ms) {
  std::string text = std::to_string(ms / 1000);
  if (ms % 1000 != 0) {
    std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
    while (fraction.back() == '0') fraction.pop_back();
    text += "." + fraction;
  }
  return text + " s";
}

}  // namespace

SqlError OutOfMemoryError(const Limits& limits, std::string_view details) {
  SqlError error;
  error.code = Code::kMistake;
  error.message = "the query needs more than " + std::to_string(limits.memory_bytes >> 20) +
                  " MB of memory (" + std::string(details.substr(0, details.find('\n'))) + ")";
  error.hint = "ask for less, or raise the limit: probing config probing.query.memory=1GB";
  error.limit = "probing.query.memory";
  return error;
}

SqlError TimeLimitError(const Limits& limits) {
  SqlError error;
  error.code = Code::kTimeout;
  error.message = "the query took longer than " + SecondsText(limits.timeout_ms) + " and was stopped";
  error.hint = "ask for less, or raise the limit: probing config probing.query.timeout=60";
  error.limit = "probing.query.timeout";
  return error;
}

SqlError RowLimitError(const Limits& limits) {
  SqlError error;
  error.code = Code::kMistake;
  error.message = "the result has more than " + std::to_string(limits.rows) + " rows";
  error.hint = "add a LIMIT or a GROUP BY, or raise the limit: probing config probing.query.rows=" +
               std::to_string(limits.rows * 10);
  error.limit = "probing.query.rows";
  return error;
}

SqlError QueueError() {
  return {Code::kTimeout, "other queries are running, and none of them ended within a minute",
          "try again later"};
}

SqlError CancelledError() { return {Code::kFailed, "the query was cancelled", ""}; }

}  // namespace probing::query
