// The words of `probing sql`: where a statement ends, and what can be completed at the cursor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace probing::cli {

// Whether the text ends with a semicolon that stands in no quotes and in no comment.
bool IsWholeStatement(std::string_view text);
// Without the semicolon and the space at its ends; "" when there is nothing but space and comments.
std::string WithoutSemicolon(std::string_view text);

struct SqlNames {
  std::vector<std::string> tables;                           // "python.torch_steps"
  std::vector<std::pair<std::string, std::string>> columns;  // table and column
};

// What may stand at the end of `before`: columns of the tables that are named in the text, tables behind FROM
// and JOIN, keywords; dot commands at the beginning.
struct SqlCompletion {
  std::size_t count = 0;  // characters before the cursor that are replaced
  std::vector<std::string> words;
};
SqlCompletion CompleteSql(std::string_view before, const SqlNames& names);

}  // namespace probing::cli
