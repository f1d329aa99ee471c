// A CPython version, and the ways to learn it from a program nobody asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace probing::cpython {

struct Version {
  int major = 0;
  int minor = 0;
  int micro = -1;  // -1: unknown; layouts hold for a whole minor version, so that is enough

  std::string ToText() const;  // "3.12.1", or "3.12" when the rest is unknown
  bool operator==(const Version&) const = default;
};

// From the value of `Py_Version` or of _Py_DebugOffsets::version: 0x030c01f0 is 3.12.1.
Version VersionFromHex(std::uint64_t hex);

// From the name of a program or library: python3.8, libpython3.7m.so.1.0, python3.13t.
std::optional<Version> VersionFromFileName(std::string_view base_name);

// From the variables of an interpreter: Py_GetVersion() keeps its answer, "3.8.18 (default, …".
// (The constant alone is no help: linkers merge it with the end of other texts.)
std::optional<Version> VersionFromVariables(std::string_view bytes);

}  // namespace probing::cpython
