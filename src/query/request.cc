#include "query/request.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace probing::query {
namespace {

struct FormatName {
  std::string_view name;
  Format format;
  const char* content_type;
};
constexpr std::array kFormats{
    FormatName{"table", Format::kTable, "text/plain; charset=utf-8"},
    FormatName{"csv", Format::kCsv, "text/csv; charset=utf-8"},
    FormatName{"json", Format::kJson, "application/json"},
    FormatName{"jsonl", Format::kJsonl, "application/x-ndjson"},
    FormatName{"markdown", Format::kMarkdown, "text/markdown; charset=utf-8"},
    FormatName{"rows", Format::kRows, "application/json"},
    FormatName{"arrow", Format::kArrow, "application/vnd.apache.arrow.stream"},
    FormatName{"parquet", Format::kParquet, "application/vnd.apache.parquet"},
    FormatName{"frame", Format::kFrame, "application/octet-stream"},
};

}  // namespace

Result<Format> ParseFormat(std::string_view name) {
  std::string all;
  for (const FormatName& format : kFormats) {
    if (format.name == name) return format.format;
    if (format.format == Format::kRows || format.format == Format::kFrame) continue;  // of programs
    all += (all.empty() ? "" : ", ") + std::string(format.name);
  }
  return Error{Code::kUsage, "there is no format " + std::string(name), "it is one of " + all};
}

void Cancellation::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  const std::uint64_t one = 1;
  if (event_.valid()) (void)!write(event_.get(), &one, sizeof(one));
}

int Cancellation::fd() {
  const std::lock_guard lock(mutex_);
  if (!event_.valid()) event_.Reset(eventfd(cancelled_ ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK));
  return event_.get();
}

const char* ContentType(Format format) {
  for (const FormatName& known : kFormats) {
    if (known.format == format) return known.content_type;
  }
  return "application/octet-stream";
}

}  // namespace probing::query
