// probing sql: a shell for queries, with completion, history and the dot commands that people know.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/highlight.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/query_client.h"
#include "cli/sql_words.h"

namespace probing::cli {
namespace {

constexpr const char* kHelp =
    "A statement ends with a semicolon and may take several lines. Tab completes tables, columns and "
    "keywords,\n"
    "^R searches the history, ^C ends a query, ^D leaves.\n"
    "  .tables [WORD]       the tables, or those with WORD in their name\n"
    "  .schema TABLE        the columns of a table, with units and what they are\n"
    "  .watch SECONDS [SQL] ask again and again: the SQL, or the last statement; ^C ends it\n"
    "  .mode FORMAT         table, csv, json, jsonl or markdown\n"
    "  .output FILE         write results there; without a file to the screen again\n"
    "  .timer on|off        say how long each query took\n"
    "  .read FILE           run the statements of a file\n"
    "  .quit                leave\n";

constexpr const char* kNamesSql = "SELECT table_name, column_name FROM probing.columns ORDER BY ALL";

// Completion may ask for them while a query runs: behind a lock.
class Names {
 public:
  explicit Names(Question question) : question_(std::move(question)) {}

  Result<SqlNames> Get() {
    const std::lock_guard lock(mutex_);
    if (names_) return *names_;
    question_.sql = kNamesSql;
    question_.format = "rows";
    ASSIGN_OR_RETURN(const std::string answer, Query(question_));
    const Json parsed = Json::parse(answer, nullptr, false);
    SqlNames names;
    for (const Json& row : parsed.value("rows", Json::array())) {
      const std::string table = row.at(0).get<std::string>();
      if (names.tables.empty() || names.tables.back() != table) names.tables.push_back(table);
      names.columns.emplace_back(table, row.at(1).get<std::string>());
    }
    names_ = std::move(names);
    return *names_;
  }

 private:
  std::mutex mutex_;
  Question question_;
  std::optional<SqlNames> names_;
};

class SqlShell {
 public:
  explicit SqlShell(Question question)
      : question_(std::move(question)),
        names_(question_),
        prompt_({.history_file = "sql_history",
                 .complete = [this](const std::string& before) { return Complete(before); },
                 .idle = [] { return std::string(); },
                 .painter = ShowsColours() ? HighlightSql : nullptr}) {}

  Result<int> Run() {
    if (prompt_.interactive()) PrintAside(".help lists commands, a statement ends with ;, ^D leaves\n");
    while (!left_) {
      Prompt::Input input = prompt_.Read("sql> ", "  -> ");
      while (input.kind == Prompt::Input::Kind::kText && !IsDone(input.text)) {
        Prompt::Input more = prompt_.ReadMore();
        if (more.kind == Prompt::Input::Kind::kEnd) {
          if (!prompt_.interactive()) Handle(input.text);
          input = {Prompt::Input::Kind::kEnd, ""};
        } else {
          input = std::move(more);
        }
      }
      if (input.kind == Prompt::Input::Kind::kEnd) break;
      if (input.kind == Prompt::Input::Kind::kText) Handle(input.text);
    }
    return prompt_.interactive() ? 0 : code_;  // a person has seen it
  }

 private:
  static bool IsBlank(const std::string& text) {
    return text.find_first_not_of(" \t\n") == std::string::npos;
  }
  static bool IsDone(const std::string& text) {
    return IsBlank(text) || text.starts_with('.') || IsWholeStatement(text);
  }

  Result<Json> Complete(const std::string& before) {
    ASSIGN_OR_RETURN(const SqlNames names, names_.Get());
    const SqlCompletion found = CompleteSql(before, names);
    std::string value = std::to_string(found.count);
    for (const std::string& word : found.words) value += "\n" + word;
    return Json{{"value", value}};
  }

  void Handle(const std::string& text) {
    if (IsBlank(text)) return;
    prompt_.Remember(text);
    if (text.starts_with('.')) return Note(Command(text));
    const std::string sql = WithoutSemicolon(text);
    if (sql.empty()) return;
    last_ = sql;
    Note(Ask(sql));
  }

  void Note(const Result<void>& done) { code_ = done.ok() ? 0 : PrintError(done.error()); }

  // Waits for the answer; ^C ends the query.
  Result<std::string> Answer(const std::string& sql, const std::string& format) {
    Question question = question_;
    question.sql = sql;
    question.format = format;
    ASSIGN_OR_RETURN(const Json answer, prompt_.WaitFor(
                                            [question]() -> Result<Json> {
                                              ASSIGN_OR_RETURN(Bytes bytes, QueryHosts(question));
                                              return Json{{"bytes", std::move(bytes.bytes)}};
                                            },
                                            [this] {
                                              interrupted_ = true;
                                              GiveUpRequests();
                                            }));
    return answer.value("bytes", "");
  }

  Result<void> Ask(const std::string& sql) {
    const std::int64_t began_ns = MonotonicNs();
    ASSIGN_OR_RETURN(const std::string answer, Answer(sql, question_.format));
    const std::int64_t took_us = (MonotonicNs() - began_ns) / 1000;
    RETURN_IF_ERROR(Show(answer, question_.format));
    if (timer_) {
      std::array<char, 48> text{};
      std::snprintf(text.data(), text.size(), "%.1f ms\n", static_cast<double>(took_us) / 1000);
      PrintAside(text.data());
    }
    return {};
  }

  Result<void> Show(const std::string& answer, const std::string& format) {
    if (output_.valid()) return WriteAll(output_.get(), answer);
    if (format == "arrow" || format == "parquet")
      return Error{Code::kUsage, format + " is not for a screen", "`.output FILE` writes it to a file"};
    Print(format == "table" ? PaintedTable(answer) : answer);
    return {};
  }

  Result<void> Command(const std::string& text) {
    const std::size_t space = std::min(text.find_first_of(" \t"), text.size());
    const std::string name = text.substr(0, space);
    std::string rest = text.substr(space);
    rest.erase(0, rest.find_first_not_of(" \t"));
    while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\n' || rest.back() == ';'))
      rest.pop_back();
    if (name == ".quit" || name == ".exit" || name == ".q") {
      left_ = true;
    } else if (name == ".help" || name == ".h") {
      Print(kHelp);
    } else if (name == ".tables") {
      return Tables(rest);
    } else if (name == ".schema") {
      return Schema(rest);
    } else if (name == ".watch") {
      return Watch(rest);
    } else if (name == ".mode") {
      return Mode(rest);
    } else if (name == ".output") {
      return Output(rest);
    } else if (name == ".timer") {
      if (rest != "on" && rest != "off") return Error{Code::kUsage, ".timer takes on or off", ""};
      timer_ = rest == "on";
    } else if (name == ".read") {
      return Read(rest);
    } else {
      return Error{Code::kUsage, "there is no command " + name, ".help lists them"};
    }
    return {};
  }

  Result<void> Tables(const std::string& word) {
    std::string sql = "SELECT table_name, kind, doc FROM probing.tables";
    if (!word.empty()) sql += " WHERE contains(table_name, " + QuoteForSql(word) + ")";
    ASSIGN_OR_RETURN(const std::string answer, Answer(sql + " ORDER BY table_name", "table"));
    return Show(answer, "table");
  }

  Result<void> Schema(const std::string& table) {
    if (table.empty())
      return Error{Code::kUsage, ".schema needs a table", "for example .schema python.stacks"};
    const std::string sql =
        "SELECT column_name, type, unit, doc FROM probing.columns WHERE table_name = " + QuoteForSql(table) +
        " ORDER BY position";
    ASSIGN_OR_RETURN(const std::string found, Answer(sql, "jsonl"));
    if (found.empty()) return Error{Code::kUsage, "table " + table + " does not exist", ".tables lists them"};
    ASSIGN_OR_RETURN(const std::string answer, Answer(sql, "table"));
    return Show(answer, "table");
  }

  Result<void> Watch(const std::string& rest) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    ASSIGN_OR_RETURN(const double seconds, AboveZero(".watch", rest.substr(0, space)));
    const std::string sql = WithoutSemicolon(std::string_view(rest).substr(space));
    if (!sql.empty()) last_ = sql;
    if (last_.empty())
      return Error{Code::kUsage, ".watch has nothing to ask", "for example .watch 1 SELECT 1"};
    interrupted_ = false;
    while (!interrupted_) {
      const Result<std::string> answer = Answer(last_, question_.format);
      if (interrupted_) break;
      if (!answer.ok()) return answer.error();
      if (prompt_.interactive() && !output_.valid()) Draw("\x1b[H\x1b[2J");
      RETURN_IF_ERROR(Show(*answer, question_.format));
      (void)prompt_.WaitFor(
          [this, seconds]() -> Result<Json> {
            const Deadline next = Deadline::AfterNs(static_cast<std::int64_t>(seconds * 1e9));
            while (!next.passed() && !interrupted_) SleepUs(20'000);
            return Json::object();
          },
          [this] { interrupted_ = true; });
    }
    return {};
  }

  Result<void> Mode(const std::string& format) {
    if (format.empty()) {
      Print(question_.format + "\n");
      return {};
    }
    const std::string known = "|" + std::string(kQueryFormats) + "|";
    if (known.find("|" + format + "|") == std::string::npos)
      return Error{Code::kUsage, "there is no format " + format,
                   "it is one of " + std::string(kQueryFormats)};
    question_.format = format;
    return {};
  }

  Result<void> Output(const std::string& path) {
    output_ = ScopedFd();
    if (path.empty() || path == "-") return {};
    output_ = ScopedFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!output_.valid()) return ErrnoError("write " + path);
    return {};
  }

  Result<void> Read(const std::string& path) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    std::string statement;
    for (std::string_view rest = text; !rest.empty();) {
      statement += std::string(TakePart(rest, '\n')) + "\n";
      if (!IsWholeStatement(statement)) continue;
      RETURN_IF_ERROR(Ask(WithoutSemicolon(statement)));
      statement.clear();
    }
    const std::string last = WithoutSemicolon(statement);
    return last.empty() ? Result<void>() : Ask(last);
  }

  Question question_;
  Names names_;
  Prompt prompt_;
  ScopedFd output_;
  std::string last_;
  std::atomic<bool> interrupted_ = false;
  bool timer_ = false;
  bool left_ = false;
  int code_ = 0;
};

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Question question, QuestionOf(invocation));
  return SqlShell(question).Run();
}

}  // namespace

Command SqlCommand() {
  return {.name = "sql",
          .summary = "Open a shell for queries, with completion and history",
          .example = "probing -t 1234 sql",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .target_may_be_directory = true,
          .target_may_be_store = true,
          .target_may_be_job = true,
          .all_is_fine = true,
          .run = Run};
}

}  // namespace probing::cli
