// The terminal while somebody types: raw for as long as the object lives, then as it was.
#pragma once

#include <termios.h>

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

// Of stdout; 80 when nobody knows.
int TerminalWidth();

// Whether a person types: stdin and stdout are a terminal that understands more than a typewriter.
bool IsInteractive();

}  // namespace probing::cli
