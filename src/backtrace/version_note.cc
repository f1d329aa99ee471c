#include "backtrace/version_note.h"

#include "cpython/newest_version.h"

namespace probing::backtrace {

std::string AboutVersion(const cpython::Version& version) {
  if (!cpython::IsNewerThanKnown(version)) return "";
  return "note: Python " + version.ToText() +
         " is newer than this probing: its stacks are read as it describes itself; suspended greenlets and "
         "`memory --heap` are missing, and tasks and variables may be\n";
}

}  // namespace probing::backtrace
