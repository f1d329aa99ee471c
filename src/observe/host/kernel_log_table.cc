#include "observe/host/kernel_log_table.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "observe/host/kernel_pids.h"
#include "observe/host/kernel_record.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::observe {
namespace {

using table::Rows;
using table::Value;

constexpr int kMostRecords = 200'000;
constexpr std::size_t kMostBytes = 64U << 20;

Value OrNull(std::string_view text) { return text.empty() ? Value() : Value(std::string(text)); }
Value OrNull(Number number) { return number ? Value(*number) : Value(); }

// All that the kernel still has. /dev/kmsg gives one record for each read and EAGAIN after the last; EPIPE
// says that records were overwritten meanwhile.
Result<std::string> ReadLog(const std::string& path) {
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("open " + path);
  std::string text;
  std::array<char, 8192> record;
  for (int i = 0; i < kMostRecords && text.size() < kMostBytes; ++i) {
    const ssize_t n = read(fd.get(), record.data(), record.size());
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (n < 0 && errno != EAGAIN) return ErrnoError("read " + path);
    if (n <= 0) break;
    text.append(record.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Ranks by process, of this host's targets.
using Ranks = std::map<std::int64_t, std::int64_t>;

Rows ReadRows(const table::Table& table, const std::string& path, const Ranks& ranks,
              const std::vector<std::size_t>& columns) {
  Rows rows(table::TypesOf(table, columns));
  const Result<std::string> text = ReadLog(path);
  if (!text.ok()) {
    rows.set_note("the kernel's log cannot be read (" + text.error().message +
                  "): it needs root, or CAP_SYSLOG and a readable /dev/kmsg; `sysctl kernel.dmesg_restrict=0`"
                  " lets everyone read it");
    return rows;
  }
  const bool are_ours = KernelMeansOurPids();
  // The kernel stamps its records with a clock that stands still while the machine sleeps, as this one.
  const std::int64_t boot_ns = WallNs() - MonotonicNs();
  for (std::string_view rest = *text; !rest.empty();) {
    const std::optional<KernelRecord> record = ParseKernelRecord(TakePart(rest, '\n'));
    if (!record) continue;
    const Number pid = are_ours ? record->pid : Number();
    const auto rank = pid ? ranks.find(*pid) : ranks.end();
    const std::array<Value, 9> row{boot_ns + record->since_boot_us * 1000,
                                   OrNull(record->kind),
                                   OrNull(record->level),
                                   record->message,
                                   OrNull(pid),
                                   OrNull(record->process_name),
                                   OrNull(record->pci),
                                   OrNull(record->code),
                                   rank != ranks.end() ? Value(rank->second) : Value()};
    std::vector<Value> picked;
    for (const std::size_t column : columns) picked.push_back(row.at(column));
    rows.Add(std::move(picked));
  }
  return rows;
}

// One part, whatever the number of targets: the log is the host's, which the first target tells.
class KernelLogSource : public table::Source {
 public:
  explicit KernelLogSource(std::string path)
      : table_(table::FindTable("system.kernel_log")), path_(std::move(path)) {}

  const table::Table& table() const override { return *table_; }

  Result<std::vector<table::Part>> Parts(const table::ScanRequest& request) override {
    const table::Target* here = nullptr;
    Ranks ranks;
    for (const table::Target* target : request.targets) {
      if (target->pid <= 0) continue;
      if (here == nullptr) here = target;
      if (target->rank) ranks.emplace(target->pid, *target->rank);
    }
    std::vector<table::Part> parts;
    if (here == nullptr && !request.targets.empty()) return parts;  // recordings: their host is not this one
    parts.push_back(
        {here, [this, ranks, columns = request.columns]() -> Result<std::unique_ptr<table::Cursor>> {
           return table::MakeRowsCursor(
               std::make_shared<const Rows>(ReadRows(*table_, path_, ranks, columns)));
         }});
    return parts;
  }

 private:
  const table::Table* table_;
  const std::string path_;
};

}  // namespace

std::shared_ptr<table::Source> MakeKernelLogSource(const std::string& path) {
  const char* named = std::getenv("PROBING_KMSG");
  const std::string from = !path.empty() ? path : named != nullptr && *named != '\0' ? named : "/dev/kmsg";
  return std::make_shared<KernelLogSource>(from);
}

}  // namespace probing::observe
