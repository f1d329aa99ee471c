#include "cli/line_editor.h"

#include <algorithm>

namespace probing::cli {
namespace {

constexpr unsigned char kEscape = 0x1b;
constexpr std::string_view kPasteBegin = "\x1b[200~";
constexpr std::string_view kPasteEnd = "\x1b[201~";

constexpr unsigned char Control(char letter) { return static_cast<unsigned char>(letter & 0x1f); }

}  // namespace

void LineEditor::Begin(std::string prompt, std::string more) {
  prompt_ = std::move(prompt);
  more_ = std::move(more);
  text_.clear();
  cursor_ = 0;
  history_at_ = history_.size();
  searching_ = false;
  drawn_rows_ = 0;
}

void LineEditor::AddLine() {
  cursor_ = text_.size();
  const std::size_t start = LineStart();
  std::size_t indent = 0;
  while (start + indent < text_.size() && text_[start + indent] == ' ') ++indent;
  const bool opens = text_.ends_with(':');
  Insert("\n" + std::string(indent + (opens ? 4 : 0), ' '));
}

LineEditor::Event LineEditor::Feed(std::string_view bytes) {
  input_ += bytes;
  Event event = Event::kNone;
  while (!input_.empty() && event == Event::kNone) {
    if (!TakeKey(event)) break;  // the rest of a sequence has not come yet
  }
  return event;
}

bool LineEditor::TakeKey(Event& event) {
  if (pasting_ || input_.starts_with(kPasteBegin)) return TakePaste();
  const auto byte = static_cast<unsigned char>(input_[0]);
  if (searching_) {
    // Keys that neither extend nor continue the search end it and are taken as usual.
    const bool of_search = byte == Control('R') || byte == 0x7f || byte == Control('H') || byte >= 0x20;
    if (of_search) {
      TakeSearchKey(byte);
      input_.erase(0, 1);
      return true;
    }
    searching_ = false;
    if (byte == Control('G')) {
      input_.erase(0, 1);
      return true;
    }
  }
  if (byte == kEscape) return TakeEscape();
  if (byte < 0x20 || byte == 0x7f) {
    input_.erase(0, 1);
    HandleControl(byte, event);
    return true;
  }
  std::size_t size = 1;
  while (size < input_.size() && static_cast<unsigned char>(input_[size]) >= 0x20 && input_[size] != 0x7f) {
    ++size;
  }
  const std::string typed = input_.substr(0, size);
  input_.erase(0, size);
  Insert(typed);
  return true;
}

bool LineEditor::TakePaste() {
  if (!pasting_) input_.erase(0, kPasteBegin.size());
  pasting_ = true;
  const std::size_t end = input_.find(kPasteEnd);
  if (end == std::string::npos) return false;
  std::string pasted = input_.substr(0, end);
  input_.erase(0, end + kPasteEnd.size());
  pasting_ = false;
  std::replace(pasted.begin(), pasted.end(), '\r', '\n');
  std::erase_if(pasted,
                [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; });
  Insert(pasted);
  return true;
}

// ESC [ … letter or ~, ESC O letter, ESC letter.
bool LineEditor::TakeEscape() {
  if (input_.size() < 2) return false;
  std::size_t size = 2;
  if (input_[1] == '[') {
    while (size < input_.size() && !(input_[size] >= '@' && input_[size] <= '~')) ++size;
    if (size == input_.size()) return false;
    ++size;
  } else if (input_[1] == 'O') {
    if (input_.size() < 3) return false;
    size = 3;
  }
  const std::string sequence = input_.substr(1, size - 1);
  input_.erase(0, size);
  HandleSequence(sequence);
  return true;
}

void LineEditor::HandleSequence(std::string_view sequence) {
  if (sequence == "[A" || sequence == "OA") return MoveVertically(-1);
  if (sequence == "[B" || sequence == "OB") return MoveVertically(1);
  if (sequence == "[C" || sequence == "OC") {
    cursor_ = Next(cursor_);
  } else if (sequence == "[D" || sequence == "OD") {
    cursor_ = Previous(cursor_);
  } else if (sequence == "[H" || sequence == "OH" || sequence == "[1~" || sequence == "[7~") {
    cursor_ = LineStart();
  } else if (sequence == "[F" || sequence == "OF" || sequence == "[4~" || sequence == "[8~") {
    cursor_ = LineEnd();
  } else if (sequence == "[3~") {
    Erase(cursor_, Next(cursor_));
  } else if (sequence == "b" || sequence == "[1;5D" || sequence == "[1;3D") {
    cursor_ = WordLeft();
  } else if (sequence == "f" || sequence == "[1;5C" || sequence == "[1;3C") {
    cursor_ = WordRight();
  } else if (sequence == "d") {
    Cut(cursor_, WordRight());
  } else if (sequence == "\x7f") {
    Cut(WordLeft(), cursor_);
  }
}

void LineEditor::HandleControl(unsigned char byte, Event& event) {
  switch (byte) {
    case Control('M'):
    case Control('J'):
      event = Event::kAccept;
      break;
    case Control('I'): {
      // In front of a line's first word it indents; there is nothing to complete.
      const std::string line = text_.substr(LineStart(), cursor_ - LineStart());
      if (line.find_first_not_of(' ') == std::string::npos) {
        Insert("    ");
      } else {
        event = Event::kComplete;
      }
      break;
    }
    case Control('C'):
      event = Event::kInterrupt;
      break;
    case Control('D'):
      if (text_.empty()) {
        event = Event::kEnd;
      } else {
        Erase(cursor_, Next(cursor_));
      }
      break;
    case Control('H'):
    case 0x7f:
      Erase(Previous(cursor_), cursor_);
      break;
    case Control('A'):
      cursor_ = LineStart();
      break;
    case Control('E'):
      cursor_ = LineEnd();
      break;
    case Control('B'):
      cursor_ = Previous(cursor_);
      break;
    case Control('F'):
      cursor_ = Next(cursor_);
      break;
    case Control('K'):
      Cut(cursor_, LineEnd());
      break;
    case Control('U'):
      Cut(LineStart(), cursor_);
      break;
    case Control('W'):
      Cut(WordLeft(), cursor_);
      break;
    case Control('Y'):
      Insert(cut_);
      break;
    case Control('P'):
      MoveInHistory(-1);
      break;
    case Control('N'):
      MoveInHistory(1);
      break;
    case Control('R'):
      searching_ = true;
      pattern_.clear();
      found_at_ = history_.size();
      break;
    case Control('L'):
      clears_ = true;
      break;
    default:
      break;
  }
}

}  // namespace probing::cli
