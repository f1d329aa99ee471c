// Names of files in a directory that several people may share: what is understood is what would be written.
#include <cstdint>
#include <cstdlib>

#include "table/history_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::table;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const std::optional<HistoryFile> file = ParseHistoryPath(text)) {
    const std::string path = HistoryPath(*file);
    if (path.find("..") != std::string::npos && text.find("..") == std::string::npos) std::abort();
    if (!ParseHistoryPath(path)) std::abort();
  }
  const std::string escaped = EscapeName(text);
  if (escaped.find('/') != std::string::npos || escaped.find('\0') != std::string::npos) std::abort();
  (void)UnescapeName(text);
  return 0;
}
