// What is wrong with a query, and where.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::query {

struct SqlError {
  Code code = Code::kFailed;
  std::string message;           // one sentence, without the excerpt
  std::string hint;              // what to do next; "" when the message says it
  int line = 0;                  // 1 is the first; 0 when the error has no place
  int column = 0;                // in characters, 1 is the first
  std::string limit = "";        // name of the setting whose limit was exceeded
  bool is_engine_fault = false;  // the engine may be of no use any more; not sent to probingd

  // Message, the line of the SQL with a caret below the place, and the hint.
  std::string Text(std::string_view sql) const;
};

// kMistake, except for faults of the engine itself. Reads the place out of DuckDB's "LINE 2: …\n   ^" and
// removes that from the message.
SqlError ParseEngineError(std::string_view engine_message, std::string_view sql);

}  // namespace probing::query
