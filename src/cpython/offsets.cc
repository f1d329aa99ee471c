#include "cpython/offsets.h"

#include <array>

#include "cpython/measured_offsets.h"

namespace probing::cpython {
namespace {

// What no offset tells: how the numbers are to be read.
constexpr Offsets Complete(int minor, Offsets o) {
  o.line_table_format = minor <= 5    ? LineTableFormat::kOldLnotab
                        : minor <= 9  ? LineTableFormat::kLnotab
                        : minor == 10 ? LineTableFormat::kLineTable
                                      : LineTableFormat::kLocations;
  if (minor <= 10) {
    o.every_frame_is_entry = true;
    o.instruction_index_unit = minor == 10 ? 2 : 1;
  }
  if (minor == 12) o.first_internal_owner = 3;
  // Up to 3.6 the collector's structs are in gcmodule.c and in no header; as those of 3.7.
  if (minor <= 6) o.collector = {.head = 32, .generation = 48};
  return o;
}

constexpr int kFirstMinor = 4;
constexpr std::array<Offsets, 9> kTables = {
    Complete(4, Measured304()),  Complete(5, Measured305()),  Complete(6, Measured306()),
    Complete(7, Measured307()),  Complete(8, Measured308()),  Complete(9, Measured309()),
    Complete(10, Measured310()), Complete(11, Measured311()), Complete(12, Measured312())};

}  // namespace

Result<Offsets> KnownOffsets(const Version& version) {
  const int index = version.minor - kFirstMinor;
  if (version.major != 3 || index < 0 || index >= static_cast<int>(kTables.size())) {
    return Error{Code::kFailed, "cannot read the stacks of Python " + version.ToText(),
                 "Python 3.4 to 3.15 are supported"};
  }
  return kTables[static_cast<std::size_t>(index)];
}

}  // namespace probing::cpython
