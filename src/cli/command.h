// How a command of `probing` is declared and what it gets when it runs.
//
// Commands are data: the parser, --help and the shell completions all read the same table
// (commands.h). Results go to stdout, everything else to stderr; a command returns its exit
// code, or an Error which main prints and turns into one (base/result.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/target.h"

namespace probing::cli {

struct Option {
  std::string_view name;   // "--timeout"; "-d,--duration"; "CODE" without dashes is a positional argument
  std::string_view value;  // what it takes, "SECONDS"; "" for switches and positional arguments
  std::string_view help;
  std::string_view choices = "";  // "a|b|c": all it can be; "" where anything may stand
};

enum class TargetUse : std::uint8_t { kNone, kOptional, kRequired };

// What follows the options. kProgram takes the rest of the line untouched, dashes and all.
enum class Arguments : std::uint8_t { kNone, kOne, kMany, kProgram };

class Invocation {
 public:
  bool Has(std::string_view option) const { return options.contains(option); }
  // "" when the option was not given.
  std::string Get(std::string_view option) const;
  // A number above 0 and at most 86400; anything else is a usage error.
  Result<double> GetNumber(std::string_view option, double otherwise) const;

  std::map<std::string, std::string, std::less<>> options;  // by long name: "--timeout"
  std::vector<std::string> arguments;
  std::optional<pid_t> target;       // set when the command requires one
  std::string directory;             // of history, absolute; instead of a target
  std::string store;                 // clickhouse://…, instead of a target
  std::optional<std::string> job;    // all its ranks instead of a target; "": the only one there is
  std::optional<Endpoint> endpoint;  // where it is; nothing: on this machine
  std::string remote_name;           // of the target, for titles: "10.0.0.7:3344/1234"
};

// What `option` was given, as a number; anything but a number above 0 is a usage error.
Result<double> AboveZero(std::string_view option, std::string_view text);

struct Command {
  std::string_view name;
  std::string_view alias;    // "" for none
  std::string_view summary;  // one line of `probing --help`
  std::string_view example;  // shown by `probing NAME --help`
  TargetUse target = TargetUse::kNone;
  bool target_may_have_ended = false;    // what it left is enough
  bool target_may_be_directory = false;  // of history files
  bool target_may_be_store = false;      // of many hosts: clickhouse://…
  bool target_may_be_job = false;        // all ranks of this host
  // For a job it may be run for each rank, one after the other.
  enum class OfJob : std::uint8_t { kNo, kInTurn } for_each_rank = OfJob::kNo;
  // Elsewhere its target may be left out although it takes one, even when there are several.
  bool all_is_fine = false;
  bool only_here = false;  // it does something to this machine
  Arguments arguments = Arguments::kNone;
  std::vector<Option> options;
  // An option that takes the target's place, "--core"; with it, one argument may follow. "" for none.
  std::string_view instead_of_target;
  Result<int> (*run)(const Invocation&) = nullptr;
};

}  // namespace probing::cli
