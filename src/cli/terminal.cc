#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/output.h"

namespace probing::cli {

RawTerminal::RawTerminal() {
  if (tcgetattr(STDIN_FILENO, &saved_) != 0) return;
  termios raw = saved_;
  raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
  raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  changed_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  Draw("\x1b[?2004h");
}

RawTerminal::~RawTerminal() {
  Draw("\x1b[?2004l");
  if (changed_) tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
}

std::optional<TerminalSize> FindTerminalSize() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

int TerminalWidth() {
  const auto size = FindTerminalSize();
  return size && size->columns > 0 ? size->columns : 80;
}

bool IsInteractive() {
  const char* kind = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

}  // namespace probing::cli
