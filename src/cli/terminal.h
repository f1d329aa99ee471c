// The terminal while somebody types: raw for as long as the object lives, then as it was.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace probing::cli {

class RawTerminal {
 public:
  // Keys come one by one, ^C among them; pasted text is marked. REQUIRES: stdin is a terminal.
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios saved_{};
  bool changed_ = false;
};

struct TerminalSize {
  int columns = 0, rows = 0;  // 0: the terminal does not say
};
// Of stdout. Nothing when it is no terminal.
std::optional<TerminalSize> FindTerminalSize();

// Of stdout; 80 when it is not known.
int TerminalWidth();

// Whether a person types: stdin and stdout are a terminal that understands more than a typewriter.
bool IsInteractive();

}  // namespace probing::cli
