// A prompt: lines from a person with editing, history and completion, or plain lines from a pipe.
//
// One thread reads keys and never waits for anything else: completions and evaluations run beside it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/scoped_fd.h"
#include "cli/daemon_client.h"
#include "cli/line_editor.h"
#include "cli/terminal.h"

namespace probing::cli {

// Work on a thread of its own; fd() becomes readable when it is done.
class Background {
 public:
  using Work = std::function<Result<Json>()>;
  explicit Background(Work work);
  int fd() const;
  // REQUIRES: fd() is readable.
  Result<Json> Take();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
};

class Prompt {
 public:
  struct Options {
    std::string history_file;  // in the user's state directory; "" for none
    // Answers as the op "complete" does; null for none.
    std::function<Result<Json>(const std::string& before_cursor)> complete;
    // Called about every 300 ms while nothing is typed. Returns something to be shown, "" for nothing.
    std::function<std::string()> idle;
    LineEditor::Painter painter = nullptr;  // colours of what is typed; null for none
  };
  explicit Prompt(Options options);
  ~Prompt();

  bool interactive() const { return terminal_.has_value(); }

  struct Input {
    enum class Kind : std::uint8_t { kText, kInterrupt, kEnd } kind;
    std::string text;
  };
  Input Read(const std::string& prompt, const std::string& more);
  // The block that was read last goes on: gives the whole of it. kEnd: no more lines come.
  Input ReadMore();

  // Waits for work; ^C meanwhile calls `interrupt`. What else is typed stays for the next prompt.
  Result<Json> WaitFor(Background::Work work, const std::function<void()>& interrupt);

  void Remember(const std::string& entry);
  // A question that is answered with y; anything else is no.
  bool Confirm(const std::string& question);

 private:
  Input ReadKeys();
  std::optional<std::string> ReadPlainLine();
  void Show(std::string_view bytes);
  void ShowCompletion(const Json& answer, const std::string& asked);

  Options options_;
  LineEditor editor_;
  std::optional<RawTerminal> terminal_;
  std::string plain_;        // what was read from the pipe and not used
  std::string plain_block_;  // the block of ReadMore
};

}  // namespace probing::cli
