// The objects that are loaded in a process, each with its unwind table and its symbols.
//
// Tables are loaded when an address in the object is asked for, symbols when a name is; both are
// kept over Refresh() as long as the object stays where it is. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "process/maps.h"
#include "unwind/debug_info.h"
#include "unwind/symbol_table.h"
#include "unwind/unwind_table.h"

namespace probing::unwind {

// Symbol tables of files, shared by everybody who looks at processes that have them loaded (the
// ranks of one host, several samplers). Known by their first page, which holds the build-id and the
// layout: paths mean different files in different containers. Thread-safe: whoever asks for a table
// that is being loaded waits, instead of loading it, too.
class SymbolStore {
 public:
  // `paths` are tried in turn. kNotFound: none is the mapped file, or it has no symbols.
  Result<std::shared_ptr<const SymbolTable>> Load(const std::vector<std::string>& paths,
                                                  const process::Mapping& first_part,
                                                  const process::Memory& memory);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const SymbolTable>> tables_;
};

// A mapped file that was found again.
struct MappedFile {
  ElfFile file;
  std::string path;  // as seen from here
};
// The first of `paths` that is the mapped file: its first page is the same. kNotFound: none is.
Result<MappedFile> OpenMappedFile(const std::vector<std::string>& paths, std::string_view first_page);

// Paths at which a mapped file may be, the likeliest first.
using FindFile = std::function<std::vector<std::string>(const process::Mapping& first_part)>;

// Below /proc/PID/root, then in /proc/PID/map_files, which needs rights but finds deleted files too.
FindFile FilesOfProcess(pid_t pid);

class Module {
 public:
  const std::string& name() const { return name_; }  // "libtorch_cpu.so", "[vdso]"
  std::uint64_t start() const { return first_part_.start; }
  bool IsAt(const process::Mapping& first_part) const;

  // What the unwind table says about `pc`. kNotFound: nothing.
  Result<Row> FindRow(std::uint64_t pc, const process::Memory& memory);
  // Start in the target and mangled name of the function at `pc`.
  // Lifetime: `memory` must outlive this.
  std::optional<Symbol> FindSymbol(std::uint64_t pc, const FindFile& find_file, const process::Memory& memory,
                                   SymbolStore& store);
  // Files and lines at `pc`, see NativeFrame::places.
  std::vector<SourcePlace> FindLines(std::uint64_t pc, const FindFile& find_file,
                                     const process::Memory& memory);
  // A variable, by its name. Of libraries with a JIT in them (LLVM) also one that they do not export.
  std::optional<std::uint64_t> FindData(const std::string& name, const FindFile& find_file,
                                        const process::Memory& memory);

 private:
  friend class Modules;
  explicit Module(const process::Mapping& first_part);

  Result<const process::ElfImage*> Image(const process::Memory& memory);

  process::Mapping first_part_;
  std::string name_;
  std::optional<Result<process::ElfImage>> image_;
  std::optional<Result<UnwindTable>> unwind_table_;
  std::shared_ptr<const SymbolTable> symbols_;  // shared with the store
  std::optional<Result<std::unique_ptr<DebugInfo>>> debug_info_;
};

class Modules {
 public:
  // What is mapped now. Objects that stayed where they were are kept.
  void Update(process::Maps maps);

  struct Code {
    Module* module = nullptr;  // null: code that belongs to no file (JIT)
  };
  // Nothing when there is no executable memory at `pc`. Valid until the next Refresh().
  std::optional<Code> FindCode(std::uint64_t pc);

  const process::Maps& maps() const { return maps_; }
  const std::vector<std::unique_ptr<Module>>& all() const { return modules_; }

 private:
  struct Part {
    std::uint64_t start, end;
    Module* module;
  };

  process::Maps maps_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<Part> parts_;  // executable mappings, ascending
};

}  // namespace probing::unwind
