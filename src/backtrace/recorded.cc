#include "backtrace/recorded.h"

#include "base/text.h"
#include "process/thread_status.h"

namespace probing::backtrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kColumns = 14;

std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }
std::int64_t Number(const Json& value) { return value.is_number_integer() ? value.get<std::int64_t>() : 0; }

char StateOf(const std::string& word) {
  for (const char state : {'R', 'S', 'D', 'T', 't', 'Z', 'I'}) {
    if (process::StateWord(state) == word) return state;
  }
  return '?';
}

std::vector<cpython::Local> LocalsOf(const Json& value) {
  std::vector<cpython::Local> locals;
  const Json parsed = Json::parse(Text(value), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return locals;
  for (const auto& [name, text] : parsed.items())
    locals.push_back({.name = name,
                      .text = text.is_string() ? text.get<std::string>()
                                               : text.dump(-1, ' ', false, Json::error_handler_t::replace)});
  return locals;
}

std::string TitleOf(const Json& row) {
  std::string title = "Process " + row[0].dump();
  if (row[1].is_number()) title += ", rank " + row[1].dump();
  if (!Text(row[3]).empty()) title += " of job " + Text(row[3]);
  return title + " on " + Text(row[2]);
}

}  // namespace

std::string RecordedSql(const Options& options) {
  return std::string(
             "SELECT pid, rank, host, job, tid, thread_name, has_gil, state, wait_channel, interpreter, func,"
             " file, lineno, depth") +
         (options.locals ? ", locals" : "") + " FROM python.stacks ORDER BY host, rank, pid, tid, depth";
}

std::vector<RecordedProcess> PicturesOf(const Json& rows, const Options& options) {
  std::vector<RecordedProcess> processes;
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() < kColumns) continue;
    const auto tid = static_cast<pid_t>(Number(row[4]));
    if (options.selection.tid && *options.selection.tid != tid) continue;
    const std::string title = TitleOf(row);
    if (processes.empty() || processes.back().title != title) {
      processes.push_back({title, {}});
      processes.back().picture.pid = static_cast<pid_t>(Number(row[0]));
      processes.back().picture.snapshot.interpreter_count = 1;
    }
    std::vector<ShownThread>& threads = processes.back().picture.threads;
    if (threads.empty() || threads.back().kernel.tid != tid) {
      ShownThread& thread = threads.emplace_back();
      thread.has_python = true;
      thread.kernel.tid = thread.python.tid = tid;
      thread.python.python_name = Text(row[5]);
      thread.python.has_gil = row[6] == true;
      thread.kernel.state = StateOf(Text(row[7]));
      thread.kernel.wait_channel = Text(row[8]);
      thread.python.interpreter_id = Number(row[9]);
    }
    cpython::Frame frame;
    frame.function = Text(row[10]);
    frame.file = Text(row[11]);
    frame.line = static_cast<int>(Number(row[12]));
    if (options.locals && row.size() > kColumns && !row[kColumns].is_null())
      frame.locals = LocalsOf(row[kColumns]);
    threads.back().python.frames.push_back(std::move(frame));
  }
  return processes;
}

}  // namespace probing::backtrace
