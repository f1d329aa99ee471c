// What is on the heap of a Python process: objects by class, and what holds most of it.
//
//   ASSIGN_OR_RETURN(const heap::Report report, heap::ReadLive(pid, {}));
//
// Read from outside: nothing is called, stopped or written, so it works while the GIL is held, while the
// process hangs, and on a core file. While the process runs the numbers are those of about one moment;
// Report::remarks says what could not be read. Python 3.7 to 3.13 with a GIL.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace probing::heap {

struct Options {
  std::size_t top = 10;  // classes and holders that are shown; 0: all
};

struct ClassUse {
  std::string name;  // "int", "train.Model"; "storage of tensors on cpu"
  std::uint64_t count = 0;
  std::uint64_t tracked = 0;  // of them, those in the lists of the collector, frozen ones included
  std::uint64_t own_bytes = 0;
  std::uint64_t retained_bytes = 0;  // what would be free if all of them were gone
};

// Something that holds much by itself, and not through one thing that does.
struct Holder {
  std::string what;  // "list of 12,345", "dict of 3"
  std::uint64_t own_bytes = 0;
  std::uint64_t retained_bytes = 0;
  std::vector<std::string> chain;  // how it is reached, from a module, a thread…, up to itself
  std::vector<ClassUse> holds;     // of what it retains: what takes most
};

struct Report {
  pid_t pid = 0;
  std::string python;     // "3.12.1"
  bool is_exact = false;  // nothing came or went meanwhile, and all could be read
  std::vector<std::string> remarks;
  std::uint64_t objects = 0;
  std::uint64_t tracked = 0;
  std::uint64_t references = 0;
  std::uint64_t object_bytes = 0;
  std::map<std::string, std::uint64_t> storage_bytes;  // of tensors, by device
  std::uint64_t unread = 0;                            // objects of which a part could not be read
  std::vector<ClassUse> classes;                       // the biggest first
  std::size_t class_count = 0;                         // of all
  std::vector<Holder> holders;                         // the biggest first
  double seconds = 0;
};

Result<Report> ReadLive(pid_t pid, const Options& options);
// `program` is the executable or a folder with all files; "" to take them from where they were.
Result<Report> ReadCore(const std::string& path, const std::string& program, const Options& options);

std::string ReportToText(const Report& report);
std::string ReportToJson(const Report& report);

}  // namespace probing::heap
