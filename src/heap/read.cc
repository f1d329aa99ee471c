#include <algorithm>

#include "base/clock.h"
#include "base/file.h"
#include "cpython/interpreter.h"
#include "heap/summary.h"
#include "process/core_file.h"
#include "process/status.h"

namespace probing::heap {
namespace {

constexpr const char* kMoved =
    "the process ran meanwhile: numbers are of about one moment, not of exactly one";

// For how long and how often each thread has run; empty when the kernel does not say.
std::string TimesRun(pid_t pid) {
  std::string all;
  const auto tids = process::ListThreads(pid);
  if (!tids.ok()) return "";
  for (const pid_t tid : *tids) {
    const auto text =
        ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/schedstat");
    if (!text.ok()) return "";
    all += *text;
  }
  return all;
}

Result<Report> Read(const process::Memory& memory, const process::Maps& maps,
                    const cpython::Location& location, const Options& options) {
  const std::int64_t start_ns = MonotonicNs();
  Report report;
  report.python = location.version.ToText();
  Graph graph(memory, maps, location, {});
  RETURN_IF_ERROR(graph.Collect());
  Summarize(graph, location, options, report);
  report.references = graph.reference_count();
  report.unread = graph.unread_objects();
  report.is_exact = graph.not_all().empty() && report.unread == 0;
  if (!graph.not_all().empty()) report.remarks.push_back("not all is here: " + graph.not_all());
  if (report.unread != 0)
    report.remarks.push_back(
        "could not be read, or made no sense: " + std::to_string(report.unread) +
        " objects or parts of them" +
        (graph.first_unread().empty() ? "" : ", the first one a " + graph.first_unread()));
  report.seconds = static_cast<double>(MonotonicNs() - start_ns) / 1e9;
  return report;
}

}  // namespace

Result<Report> ReadLive(pid_t pid, const Options& options) {
  // Finds out, and says, what stands in the way.
  ASSIGN_OR_RETURN(const cpython::Interpreter interpreter, cpython::Interpreter::Attach(pid));
  ASSIGN_OR_RETURN(const process::Maps maps, process::Maps::Read(pid));
  const std::string before = TimesRun(pid);
  ASSIGN_OR_RETURN(Report report, Read(process::ProcessMemory(pid), maps, interpreter.location(), options));
  report.pid = pid;
  if (before.empty() || TimesRun(pid) != before) {
    report.is_exact = false;
    report.remarks.emplace_back(kMoved);
  }
  return report;
}

Result<Report> ReadCore(const std::string& path, const std::string& program, const Options& options) {
  ASSIGN_OR_RETURN(const process::CoreFile core, process::CoreFile::Open(path, program));
  const auto location = cpython::Locate(*core.memory, core.maps);
  if (!location.ok()) {
    return Error{location.error().code, path + ": " + location.error().message,
                 core.is_truncated
                     ? "the core file is truncated: was the disk full, or `ulimit -c` too small?"
                     : "name the program, or a folder with all its files, after the core"};
  }
  ASSIGN_OR_RETURN(Report report, Read(*core.memory, core.maps, *location, options));
  report.pid = core.pid;
  if (core.is_truncated) report.remarks.emplace_back("the core file is truncated");
  return report;
}

}  // namespace probing::heap
