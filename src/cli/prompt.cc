#include "cli/prompt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/visible.h"
#include "cli/history_file.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

constexpr int kIdleMs = 300;
constexpr std::size_t kMostShown = 100;

// "" at the end of input.
std::string ReadSome(int fd) {
  std::array<char, 4096> bytes;
  ssize_t n = 0;
  do {
    n = read(fd, bytes.data(), bytes.size());
  } while (n < 0 && errno == EINTR);
  return n > 0 ? std::string(bytes.data(), static_cast<std::size_t>(n)) : "";
}

std::string CommonPrefix(const std::vector<std::string>& words) {
  std::string prefix = words.front();
  for (const std::string& word : words) {
    const auto end = std::mismatch(prefix.begin(), prefix.end(), word.begin(), word.end()).first;
    prefix.erase(end, prefix.end());
  }
  return prefix;
}

std::string InColumns(const std::vector<std::string>& words, int width) {
  int widest = 0;
  for (const std::string& word : words) widest = std::max(widest, DisplayColumns(word) + 2);
  const int per_row = std::max(1, width / widest);
  std::string text;
  for (std::size_t i = 0; i < words.size() && i < kMostShown; ++i) {
    text += words[i];
    const bool last = (i + 1) % static_cast<std::size_t>(per_row) == 0 || i + 1 == words.size();
    text += last ? std::string("\n")
                 : std::string(static_cast<std::size_t>(widest - DisplayColumns(words[i])), ' ');
  }
  if (words.size() > kMostShown) text += "… " + std::to_string(words.size() - kMostShown) + " more\n";
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace

struct Background::State {
  Work work;
  ScopedFd done{eventfd(0, EFD_CLOEXEC)};
  std::mutex mutex;
  std::optional<Result<Json>> result;
};

Background::Background(Work work) : state_(std::make_shared<State>()) {
  state_->work = std::move(work);
  std::thread([state = state_] {
    Result<Json> result = state->work();
    const std::lock_guard lock(state->mutex);
    state->result = std::move(result);
    const std::uint64_t one = 1;
    (void)!write(state->done.get(), &one, sizeof(one));
  }).detach();
}

int Background::fd() const { return state_->done.get(); }

Result<Json> Background::Take() {
  const std::lock_guard lock(state_->mutex);
  return std::move(*state_->result);
}

Prompt::Prompt(Options options) : options_(std::move(options)) {
  if (!IsInteractive()) return;
  terminal_.emplace();
  editor_.UsePainter(options_.painter);
  if (!options_.history_file.empty()) editor_.history() = LoadHistory(options_.history_file);
}

Prompt::~Prompt() = default;

void Prompt::Show(std::string_view bytes) { Draw(bytes); }

Prompt::Input Prompt::Read(const std::string& prompt, const std::string& more) {
  if (!interactive()) {
    std::optional<std::string> line = ReadPlainLine();
    if (!line) return {Input::Kind::kEnd, ""};
    plain_block_ = *line;
    return {Input::Kind::kText, *line};
  }
  editor_.Begin(prompt, more);
  return ReadKeys();
}

Prompt::Input Prompt::ReadMore() {
  if (!interactive()) {
    std::optional<std::string> line = ReadPlainLine();
    if (!line) return {Input::Kind::kEnd, plain_block_};
    plain_block_ += "\n" + *line;
    return {Input::Kind::kText, plain_block_};
  }
  // The block is drawn where it was: the cursor went below it when Enter was pressed.
  Show("\x1b[A");
  editor_.AddLine();
  return ReadKeys();
}

Prompt::Input Prompt::ReadKeys() {
  std::optional<Background> completion;
  std::string asked;
  std::string bytes;
  bool changed = true;
  while (true) {
    const LineEditor::Event event = editor_.Feed(bytes);
    bytes.clear();
    switch (event) {
      case LineEditor::Event::kAccept:
        Show(editor_.RenderEnd(TerminalWidth()));
        return {Input::Kind::kText, editor_.text()};
      case LineEditor::Event::kInterrupt:
        Show(editor_.RenderEnd(TerminalWidth()));
        return {Input::Kind::kInterrupt, ""};
      case LineEditor::Event::kEnd:
        Show(editor_.RenderEnd(TerminalWidth()));
        return {Input::Kind::kEnd, ""};
      case LineEditor::Event::kComplete:
        if (options_.complete) {
          asked = editor_.before_cursor();
          completion.emplace([complete = options_.complete, asked] { return complete(asked); });
        }
        continue;
      case LineEditor::Event::kNone:
        break;
    }
    if (changed) Show(editor_.Render(TerminalWidth()));
    changed = true;
    std::array<pollfd, 2> ready{pollfd{STDIN_FILENO, POLLIN, 0},
                                pollfd{completion ? completion->fd() : -1, POLLIN, 0}};
    const int n = poll(ready.data(), ready.size(), options_.idle ? kIdleMs : -1);
    if (n == 0) {
      const std::string news = options_.idle();
      changed = !news.empty();
      if (changed) {
        Show("\r\x1b[J" + TerminalSafe(news));
        editor_.ForgetScreen();
      }
    }
    if (ready[1].revents != 0) {
      const Result<Json> answer = completion->Take();
      completion.reset();
      if (answer.ok()) ShowCompletion(*answer, asked);
    }
    if (ready[0].revents != 0) {
      bytes = ReadSome(STDIN_FILENO);
      if (bytes.empty()) return {Input::Kind::kEnd, ""};  // the terminal is gone
    }
  }
}

void Prompt::ShowCompletion(const Json& answer, const std::string& asked) {
  if (editor_.before_cursor() != asked) return;  // meanwhile more was typed
  std::vector<std::string> words = Lines(answer.value("value", ""));
  const std::size_t count = static_cast<std::size_t>(std::strtoul(words.front().c_str(), nullptr, 10));
  words.erase(words.begin());
  if (words.empty()) return Show("\a");
  for (std::string& word : words) word = Visible(word);
  const std::string prefix = CommonPrefix(words);
  const std::string before = editor_.before_cursor();
  editor_.ReplaceBefore(count, prefix);
  if (words.size() > 1 && editor_.before_cursor() == before) {
    Show(editor_.Render(TerminalWidth()) + "\r\n" + TerminalSafe(InColumns(words, TerminalWidth())));
    editor_.ForgetScreen();
  }
}

std::optional<std::string> Prompt::ReadPlainLine() {
  std::size_t newline = 0;
  while ((newline = plain_.find('\n')) == std::string::npos) {
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    if (options_.idle && poll(&ready, 1, kIdleMs) == 0) {
      (void)options_.idle();
      continue;
    }
    const std::string bytes = ReadSome(STDIN_FILENO);
    if (bytes.empty()) {
      if (plain_.empty()) return std::nullopt;
      return std::exchange(plain_, "");
    }
    plain_ += bytes;
  }
  std::string line = plain_.substr(0, newline);
  plain_.erase(0, newline + 1);
  return line;
}

Result<Json> Prompt::WaitFor(Background::Work work, const std::function<void()>& interrupt) {
  Background background(std::move(work));
  bool listening = interactive();
  bool interrupted = false;
  std::string typed;
  while (true) {
    std::array<pollfd, 2> ready{pollfd{background.fd(), POLLIN, 0},
                                pollfd{listening ? STDIN_FILENO : -1, POLLIN, 0}};
    const int n = poll(ready.data(), ready.size(), options_.idle ? kIdleMs : -1);
    if (n == 0 && options_.idle) (void)options_.idle();
    if (n == 0 && interrupted) interrupt();  // the first may have overtaken what it was meant for
    if (ready[1].revents != 0) {
      const std::string bytes = ReadSome(STDIN_FILENO);
      listening = !bytes.empty();
      const std::size_t at = bytes.find('\x03');
      if (at == std::string::npos) {
        typed += bytes;
      } else {
        typed.clear();
        Show("^C\n");
        interrupt();
        interrupted = true;
      }
    }
    if (ready[0].revents != 0) {
      // Type-ahead is for the next prompt.
      if (!typed.empty()) editor_.Push(typed);
      return background.Take();
    }
  }
}

void Prompt::Remember(const std::string& entry) {
  const std::size_t before = editor_.history().size();
  editor_.Remember(entry);
  if (interactive() && editor_.history().size() != before && !options_.history_file.empty()) {
    AppendHistory(options_.history_file, entry);
  }
}

bool Prompt::Confirm(const std::string& question) {
  if (!interactive()) return false;
  const Input answer = Read(question, "");
  return answer.kind == Input::Kind::kText && (answer.text == "y" || answer.text == "yes");
}

}  // namespace probing::cli
