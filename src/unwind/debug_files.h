// Debug files: symbols and debug information that a distribution keeps apart from its libraries.
//
// Looked for where gdb looks, in the target's file system and then in ours: by build-id below
// /usr/lib/debug/.build-id, in the cache folders of debuginfod clients (nothing is downloaded), and by the
// name in .gnu_debuglink. A file that belongs to another build is never used: build-ids, or the checksum that
// the link holds, must agree.
#pragma once

#include <optional>
#include <string>

#include "unwind/elf_file.h"

namespace probing::unwind {

// `object_path` is where `object` was found, as seen from here: "/proc/12/root/usr/lib/libc.so.6".
std::optional<ElfFile> FindDebugFile(const ElfFile& object, const std::string& object_path);

// What .gnu_debugdata holds, Fedora's small symbol table in the library itself. Nothing when there is none.
std::optional<ElfFile> OpenDebugData(const ElfFile& object);

// The folder that paths of the file's process start at: "/proc/12/root", or "" for our own.
std::string RootOf(const std::string& object_path);

}  // namespace probing::unwind
