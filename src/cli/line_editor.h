// LineEditor: what a person types becomes a line, or a block of lines. Bytes of a terminal in, bytes for
// the terminal out; it reads and writes nothing itself, so that nobody who waits makes a key wait.
//
// Keys as everywhere: arrows, Home, End, Delete, ^A ^E ^B ^F ^K ^U ^W ^Y ^L ^P ^N ^R, Alt-B, Alt-F, Alt-D;
// history; bracketed paste (pasted lines stay one block and no Tab in them completes). UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace probing::cli {

class LineEditor {
 public:
  enum class Event : std::uint8_t {
    kNone,       // all bytes are used up
    kAccept,     // Enter: text() is what was typed
    kComplete,   // Tab: before_cursor() is to be completed
    kInterrupt,  // ^C
    kEnd,        // ^D on an empty line
  };

  // An empty line behind this prompt; the lines below the first have `more` in front of them.
  void Begin(std::string prompt, std::string more);

  // How the text is shown: it gets the whole text and gives, for each byte, the number of a terminal's colour
  // (31: red; 0: as it is). The default shows it plain.
  using Painter = std::function<std::vector<std::uint8_t>(std::string_view text)>;
  void UsePainter(Painter painter) { painter_ = std::move(painter); }
  // After kAccept: the block goes on with another line, indented as the last one suggests.
  void AddLine();

  // Takes typed bytes until something happens; what is left stays for the next call, with or without
  // more bytes.
  Event Feed(std::string_view bytes);
  // Bytes that were typed before there was a line to take them.
  void Push(std::string_view bytes) { input_ += bytes; }

  const std::string& text() const { return text_; }
  std::string before_cursor() const { return text_.substr(0, cursor_); }
  // Replaces the last `count` characters (not bytes) before the cursor.
  void ReplaceBefore(std::size_t count, std::string_view by);

  // What the terminal has to be sent to show the line as it is now.
  std::string Render(int columns);
  // The same, with the cursor behind the last line: something else is printed next.
  std::string RenderEnd(int columns);
  // The line is drawn anew below whatever was printed meanwhile.
  void ForgetScreen() { drawn_rows_ = 0; }

  std::vector<std::string>& history() { return history_; }
  // Remembers an entry unless it is empty or the last one again.
  void Remember(const std::string& entry);

 private:
  bool TakeKey(Event& event);
  bool TakeEscape();
  bool TakePaste();
  void TakeSearchKey(unsigned char byte);
  void HandleControl(unsigned char byte, Event& event);
  void HandleSequence(std::string_view sequence);
  void Insert(std::string_view bytes);
  void Erase(std::size_t from, std::size_t to);
  void Cut(std::size_t from, std::size_t to);
  void MoveInHistory(int by);
  void MoveVertically(int by);
  void Search();
  std::size_t Previous(std::size_t at) const;
  std::size_t Next(std::size_t at) const;
  std::size_t WordLeft() const;
  std::size_t WordRight() const;
  std::size_t LineStart() const;
  std::size_t LineEnd() const;
  struct Position {
    int row = 0;
    int column = 0;
  };
  void Lay(std::string_view text, int columns, Position& at, std::string* out) const;
  std::string Prompt(std::string_view prompt) const;

  std::string prompt_, more_;
  std::string text_;
  std::size_t cursor_ = 0;
  std::string input_;  // bytes that are not used yet
  bool pasting_ = false;
  std::string cut_;
  std::vector<std::string> history_;
  std::size_t history_at_ = 0;  // history_.size(): what is being typed
  std::string unfinished_;      // that, while an older entry is shown
  bool searching_ = false;
  std::string pattern_;
  std::size_t found_at_ = 0;
  int drawn_rows_ = 0;   // how far below the first row the cursor is
  bool clears_ = false;  // ^L: the next drawing starts on an empty screen
  Painter painter_;
};

// How many columns a terminal needs for the text. Characters of East Asia take two, accents none.
int DisplayColumns(std::string_view text);

}  // namespace probing::cli
