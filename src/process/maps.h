// /proc/PID/maps as values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "process/memory.h"

namespace probing::process {

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t inode = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  std::string path;  // "" when anonymous; "[stack]", "/lib/x.so", "/memfd:a (deleted)"…

  bool Contains(std::uint64_t address) const { return address >= start && address < end; }
};

class Maps {
 public:
  // Lines that make no sense are skipped: a path may contain anything, even a newline.
  static Maps Parse(std::string_view text);
  // REQUIRES: ascending.
  static Maps Of(std::vector<Mapping> mappings);
  static Result<Maps> Read(pid_t pid, const std::string& proc_root = "/proc");

  const std::vector<Mapping>& all() const { return mappings_; }
  const Mapping* Find(std::uint64_t address) const;

  // A mapped file: where its first byte is and all parts of it.
  struct Object {
    std::string path;
    std::uint64_t base = 0;
    std::vector<Mapping> parts;
  };
  // Every mapped file once, in address order.
  std::vector<Object> Objects() const;

 private:
  std::vector<Mapping> mappings_;  // ascending, as the kernel prints them
};

// The last component of a path, without a trailing " (deleted)".
std::string_view BaseName(std::string_view path);

}  // namespace probing::process
