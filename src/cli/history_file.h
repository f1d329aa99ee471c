// What was typed at a prompt, across sessions: a file in the user's state directory, one entry per line;
// line breaks within an entry are written as \n. Only its owner can read it. Errors cost the history and
// nothing else.
#pragma once

#include <string>
#include <vector>

namespace probing::cli {

// `name` is the file's own name: "repl_history".
std::vector<std::string> LoadHistory(const std::string& name);
void AppendHistory(const std::string& name, const std::string& entry);

std::string EscapeEntry(const std::string& entry);
std::string UnescapeEntry(const std::string& line);

}  // namespace probing::cli
