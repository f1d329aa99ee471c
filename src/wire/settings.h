// Every setting of Probing, declared once, and the values one program holds.
//
// A setting lives in one place: the probe of each target, or the user's probingd (for all
// targets, or one value for each). Its
// environment name follows from its name (probing.eval.timeout: PROBING_EVAL_TIMEOUT).
// Linked into the probe, so nothing here throws or depends on the target's locale.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing::wire {

enum class Holder : std::uint8_t { kProbe, kDaemon, kDaemonPerTarget };
enum class SettingType : std::uint8_t {
  kSeconds,
  kBytes,
  kCount,
  kShare,
  kFlag,
  kChoice,
  kWords,
  kPath,
  kAddresses,
  kPeers,
  kStore,
  kTorchSpec,
  kNames,
  kBounds,
  kUrl,      // of an outlet: has secrets
  kHeaders,  // of HTTP: are secrets
  kSystemLog,
  kPattern
};

struct Setting {
  std::string_view name;
  Holder holder;
  SettingType type;
  std::string_view default_value;  // canonical text
  double minimum = 0;              // of numbers
  double maximum = 0;
  std::string_view choices;  // "a|b|c"; of kWords any of them, or none
  std::string_view description;
};

std::span<const Setting> AllSettings();

// An unknown name is a usage error that suggests the nearest known one.
Result<const Setting*> FindSetting(std::string_view name);

std::string EnvironmentName(const Setting& setting);

// Checks a value and writes it the one way it is stored and shown: seconds as "0.5", bytes
// as "1048576" (from "1MB"), shares as "3%" (from "0.03"), flags as "true" or "false", words as "a,c" in
// the order of the choices, paths as they are, addresses as "127.0.0.1:3344,[::1]:3344" or "none".
Result<std::string> CanonicalValue(const Setting& setting, std::string_view text);

// A value as it may be shown: in logs, tables, answers, errors. `value` need not be a valid one.
std::string ShownValue(const Setting& setting, std::string_view value);
// The same by name; of an unknown one nothing is shown.
std::string ShownValue(std::string_view name, std::string_view value);

// The values of all settings of one holder. Not thread-safe.
class Settings {
 public:
  explicit Settings(Holder holder);

  // Takes values from the environment. A bad value keeps the default and is reported.
  std::vector<Error> LoadEnvironment();

  // Refuses unknown names, bad values and settings somebody else holds.
  Result<void> Set(std::string_view name, std::string_view value);

  // REQUIRES: a setting of this holder.
  std::string_view Get(std::string_view name) const;
  double GetNumber(std::string_view name) const;  // of shares in percent
  bool GetFlag(std::string_view name) const { return Get(name) == "true"; }

  struct Value {
    const Setting* setting;
    std::string value;
  };
  const std::vector<Value>& all() const { return values_; }

 private:
  Holder holder_;
  std::vector<Value> values_;
};

// The candidate nearest to `name` by edit distance; "" when none is near.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace probing::wire
