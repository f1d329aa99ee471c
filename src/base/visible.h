// Text of a target that goes to a terminal or into a log.
//
// Names of functions, files, threads, tasks and processes are whatever a program calls them: also line ends,
// and what terminals take for orders (set the title, answer as if typed, hide what follows). Whoever prints
// such a name passes it through Visible(); a whole text that may hold our own colours goes through
// TerminalSafe().
#pragma once

#include <string>
#include <string_view>

namespace probing {

// Control characters, also those beyond ASCII, and marks that turn the direction of writing, as \n, \x1B,
// \u202E.
std::string Visible(std::string_view text);

// The same for a text of several lines: line ends, tabs and colours (ESC [ … m) stay.
std::string TerminalSafe(std::string_view text);

}  // namespace probing
