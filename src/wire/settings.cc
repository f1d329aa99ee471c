#include "wire/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"
#include "wire/address.h"
#include "wire/bounds.h"
#include "wire/node_list.h"
#include "wire/outlet_url.h"
#include "wire/peers.h"
#include "wire/store_url.h"
#include "wire/torch_spec.h"

namespace probing::wire {
namespace {

using enum Holder;
using enum SettingType;

constexpr std::size_t kMostPattern = 500;

constexpr std::array kSettings{
    Setting{"probing.eval.timeout", kProbe, kSeconds, "10", 0.001, 86400, "",
            "how long one eval may take unless the caller says otherwise"},
    Setting{"probing.eval.max_output", kProbe, kBytes, "1048576", 0, 16 << 20, "",
            "how much captured output of one eval is kept"},
    Setting{"probing.eval.step_hold", kProbe, kSeconds, "1", 0.001, 60, "",
            "how long `eval --at step` may hold the job's thread at the end of a step"},
    Setting{
        "probing.debug.max_pause", kProbe, kSeconds, "600", 0, 86400 * 365, "",
        "a thread held by a debugger goes on after this long; 0 holds it as long as the debugger is there"},
    Setting{"probing.nested", kProbe, kFlag, "false", 0, 0, "",
            "whether processes forked by the target get a probe of their own"},
    Setting{"probing.max_memory", kProbe, kBytes, "268435456", 1 << 20, 1099511627776.0, "",
            "how much memory all tables of a target may take"},
    Setting{"probing.table_rows", kProbe, kCount, "10000", 1, 1 << 30, "",
            "how many rows each table keeps; then the oldest are overwritten"},
    Setting{
        "probing.python.hooks", kProbe, kWords, "gc,exceptions,loggers,memory", 0, 0,
        "gc|exceptions|loggers|memory|post_mortem",
        "what the probe notes in Python: collections, uncaught exceptions, what TensorBoard and wandb log, "
        "the interpreter's memory; post_mortem keeps the last uncaught exception with its variables"},
    Setting{"probing.python.memory_interval", kProbe, kSeconds, "5", 0.05, 86400, "",
            "seconds between rows of python.memory that the probe adds"},
    Setting{
        "probing.torch.profiling", kProbe, kTorchSpec, "off", 0, 0, "",
        "what is noted of PyTorch: off, or on with rate=, backward=, collectives=, nan=, modules=, exprs="},
    Setting{"probing.torch.max_overhead", kProbe, kShare, "3%", 0.01, 100, "",
            "the share of the time that tracing PyTorch may take before fewer steps are traced"},
    Setting{"probing.torch.nvtx", kProbe, kWords, "none", 0, 0, "spans|modules",
            "spans: the job's NVTX ranges and record_function are rows of python.spans; modules: modules are "
            "NVTX ranges, for the job's own profiler"},
    Setting{"probing.torch.oom_snapshots", kProbe, kPath, "", 0, 0, "",
            "folder for a snapshot of the GPU's memory when there is none left; torch's memory history is on "
            "meanwhile"},
    Setting{"probing.sample_rate", kDaemonPerTarget, kSeconds, "0.1", 0, 3600, "",
            "seconds between samples of the stacks, as in 0.1; 0 takes none"},
    Setting{"probing.sample_native", kDaemonPerTarget, kFlag, "false", 0, 0, "",
            "whether samples have native frames, too; threads that run are held for microseconds"},
    Setting{
        "probing.sample_memory", kDaemon, kBytes, "23068672", 65536, 1 << 30, "",
        "how much memory the samples of one target may take; then the oldest go. By default ten minutes of "
        "fifty threads that all run"},
    Setting{"probing.stalls.limit", kDaemon, kSeconds, "0", 0, 3600, "",
            "how long an event loop may not turn, or the GIL be kept from others, before it is a row of "
            "python.stalls, as in 0.05; 0 watches for no stall of any kind"},
    Setting{"probing.stalls.step_factor", kDaemon, kCount, "3", 2, 1000, "",
            "a training step is a stall that takes so many times the running median, and 50 ms more than it"},
    Setting{"probing.stalls.exceptions", kDaemon, kNames, "none", 0, 0, "",
            "classes of uncaught exceptions of which python.stalls keeps the moment before, as in "
            "MemoryError,OutOfMemoryError"},
    Setting{
        "probing.stalls.metrics", kDaemon, kBounds, "none", 0, 0, "",
        "bounds of metrics; python.stalls keeps the moment before one is crossed, as in loss>10,acc1<0.2"},
    Setting{"probing.stalls.log", kProbe, kPattern, "none", 0, 0, "",
            "a regular expression (of Python): python.stalls keeps the moment before a line of the job's log "
            "(module logging) in which it is found, as in \"timed? out|loss is nan\""},
    Setting{"probing.outlets.webhook", kDaemon, kUrl, "none", 0, 0, "",
            "where findings and stalls are sent: https://HOST:9093/api/v2/alerts of an Alertmanager, or what "
            "takes the webhooks of one"},
    Setting{"probing.outlets.webhook_headers", kDaemon, kHeaders, "none", 0, 0, "",
            "fields of HTTP that go with it, as in Authorization=Bearer%20TOKEN; they are never shown"},
    Setting{
        "probing.outlets.otlp", kDaemon, kUrl, "none", 0, 0, "",
        "collector of OpenTelemetry that gets findings and stalls as logs, metrics of processes, and spans "
        "and steps as traces, as in http://HOST:4318"},
    Setting{"probing.outlets.otlp_headers", kDaemon, kHeaders, "none", 0, 0, "",
            "fields of HTTP that go with it, as in api-key=TOKEN; they are never shown"},
    Setting{
        "probing.outlets.syslog", kDaemon, kSystemLog, "none", 0, 0, "",
        "whether findings and stalls are lines of the system's log: on (journald, otherwise /dev/log), or "
        "the path of a socket"},
    Setting{"probing.outlets.interval", kDaemon, kSeconds, "15", 0.5, 3600, "",
            "seconds between looks for findings, stalls and metrics while there is an outlet"},
    Setting{"probing.outlets.repeat", kDaemon, kSeconds, "3600", 1, 604800, "",
            "how long until a finding that lasts is told again"},
    Setting{"probing.outlets.authority", kDaemon, kPath, "", 0, 0, "",
            "PEM file of certificates by which outlets are known, besides those that this machine trusts"},
    Setting{"probing.daemon.idle_exit", kDaemon, kSeconds, "60", 0.1, 86400 * 365, "",
            "probingd exits after this long without a target and without a request"},
    Setting{"probing.system.interval", kDaemon, kSeconds, "1", 0, 3600, "",
            "seconds between rows of the system.* tables; 0 writes none"},
    Setting{"probing.keep_ended", kDaemon, kSeconds, "600", 0, 86400 * 365, "",
            "how long the rows of a target that ended are kept in memory"},
    Setting{"probing.query.timeout", kDaemon, kSeconds, "10", 0.01, 3600, "", "how long one query may take"},
    Setting{"probing.query.memory", kDaemon, kBytes, "268435456", 16 << 20, 1099511627776.0, "",
            "how much memory one query may take"},
    Setting{"probing.query.rows", kDaemon, kCount, "1000000", 1, 1 << 30, "",
            "how many rows the answer to a query may have"},
    Setting{"probing.diagnose.patience", kDaemon, kSeconds, "10", 0.1, 3600, "",
            "how long something has to last before `probing diagnose` calls it wrong"},
    Setting{"probing.diagnose.window", kDaemon, kSeconds, "600", 1, 2592000, "",
            "how long a death is news for `probing diagnose`"},
    Setting{"probing.incident.on", kDaemon, kWords, "none", 0, 0, "hang|death",
            "findings at which probingd writes an incident file by itself: hang, death, or both"},
    Setting{"probing.incident.dir", kDaemon, kPath, "", 0, 0, "",
            "where these files are; by default ~/.local/share/probing/incidents"},
    Setting{"probing.incident.files", kDaemon, kCount, "10", 1, 10000, "",
            "how many of them are kept; then the oldest goes"},
    Setting{"probing.incident.size", kDaemon, kBytes, "20971520", 65536, 209715200, "",
            "how large one of them may become"},
    Setting{"probing.profile.memory", kDaemon, kBytes, "1073741824", 1 << 20, 1099511627776.0, "",
            "a `probing profile` ends early when the job has grown by this much meanwhile"},
    Setting{
        "probing.trace.events", kDaemon, kCount, "2000000", 1, 100000000, "",
        "how many events of a profile, or of a trace of torch.profiler, become rows; the others are counted"},
    Setting{"probing.retention_days", kDaemon, kCount, "0", 0, 36500, "",
            "how many days rows are kept in files, too; 0 keeps them in memory only"},
    Setting{"probing.retention_bytes", kDaemon, kBytes, "10737418240", 1 << 20, 1125899906842624.0, "",
            "how large these files may become together; then the oldest go"},
    Setting{"probing.data_dir", kDaemon, kPath, "", 0, 0, "",
            "where these files are; by default ~/.local/share/probing"},
    Setting{"probing.history.interval", kDaemon, kSeconds, "60", 0.1, 3600, "",
            "how long a row may wait until it is written to a file"},
    Setting{"probing.store", kDaemon, kStore, "none", 0, 0, "",
            "where rows go, too, for many hosts together, as in clickhouse://HOST:8123/DATABASE"},
    Setting{"probing.store.interval", kDaemon, kSeconds, "10", 0.1, 3600, "",
            "how long a row may wait until it is sent there"},
    Setting{"probing.store.spool", kDaemon, kBytes, "1073741824", 65536, 1125899906842624.0, "",
            "how much may wait on disk while the store is away; then the oldest is dropped"},
    Setting{"probing.server.addr", kDaemon, kAddresses, "none", 0, 0, "",
            "addresses probingd answers on besides its unix socket, as in 127.0.0.1:3344"},
    Setting{"probing.server.rights", kDaemon, kChoice, "eval", 0, 0, "read|profile|eval",
            "what programs of this user may do that come through the network of this machine"},
    Setting{"probing.server.plain", kDaemon, kFlag, "false", 0, 0, "",
            "whether other machines may come without encryption, too; they need a token anyway"},
    Setting{"probing.server.certificate", kDaemon, kPath, "", 0, 0, "",
            "PEM file that other machines see, with its chain; by default a self-made one"},
    Setting{"probing.server.key", kDaemon, kPath, "", 0, 0, "",
            "PEM file of the certificate's key, when it is another one"},
    Setting{"probing.cluster.peers", kDaemon, kPeers, "none", 0, 0, "",
            "where the probingd of all hosts of a job answer, as in node[1-4]:3344, or who knows: slurm, "
            "dns:NAME:PORT, tcpstore, etcd:HOST:PORT/PREFIX; this one may be among them"},
    Setting{"probing.cluster.timeout", kDaemon, kSeconds, "3", 0.05, 600, "",
            "how long other hosts have to answer, all together; then the answer goes without them"},
    Setting{"probing.cluster.max_bytes", kDaemon, kBytes, "67108864", 1024, 268435456, "",
            "how much one query may gather from other hosts; beyond it the query is refused"},
    Setting{"probing.mcp.eval", kDaemon, kFlag, "false", 0, 0, "",
            "whether AI agents (/mcp) may run code in targets; they need the right to as well"},
    Setting{"probing.loglevel", kDaemon, kChoice, "info", 0, 0, "error|warn|info|debug",
            "what probingd writes to its log"},
};

// Splits "1.5MB" into 1.5 and "MB".
struct Quantity {
  double number;
  std::string_view unit;
};
std::optional<Quantity> ParseQuantity(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return Quantity{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<double> UnitFactor(SettingType type, std::string_view unit) {
  using Unit = std::pair<std::string_view, double>;
  static constexpr std::array kTime{Unit{"", 1}, Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"min", 60},
                                    Unit{"h", 3600}};
  static constexpr std::array kNone{Unit{"", 1}};
  static constexpr std::array kParts{Unit{"", 100}, Unit{"%", 1}};
  static constexpr std::array kSize{Unit{"", 1}, Unit{"B", 1}, Unit{"KB", 1 << 10}, Unit{"MB", 1 << 20},
                                    Unit{"GB", 1 << 30}};
  const std::span<const Unit> units = type == kSeconds ? std::span<const Unit>(kTime)
                                      : type == kCount ? std::span<const Unit>(kNone)
                                      : type == kShare ? std::span<const Unit>(kParts)
                                                       : std::span<const Unit>(kSize);
  for (const auto& [name, factor] : units) {
    if (name == unit) return factor;
  }
  return std::nullopt;
}

std::string NumberText(double number) {
  std::array<char, 32> text;
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return error == std::errc() ? std::string(text.data(), end) : std::string("0");
}

std::string Listed(std::string_view choices) {
  std::string list;
  for (const char c : choices) list += c == '|' ? std::string(", ") : std::string(1, c);
  return list;
}

std::string ExpectedForm(const Setting& setting) {
  switch (setting.type) {
    case kFlag:
      return "true or false";
    case kChoice:
      return "one of " + Listed(setting.choices);
    case kSeconds:
      return "seconds from " + NumberText(setting.minimum) + " to " + NumberText(setting.maximum) +
             ", as in 2.5, 500ms or 10min";
    case kBytes:
      return "bytes from " + NumberText(setting.minimum) + " to " + NumberText(setting.maximum) +
             ", as in 65536, 64KB or 1MB";
    case kCount:
      return "a number from " + NumberText(setting.minimum) + " to " + NumberText(setting.maximum);
    case kPath:
      return "an absolute path";
    case kShare:
      return "a share from " + NumberText(setting.minimum) + "% to " + NumberText(setting.maximum) +
             "%, as in 3% or 0.03";
    case kTorchSpec:
      return "on or off";  // its own errors say more
    case kPeers:
      return "none, or some of HOST:PORT, node[1-4]:PORT, slurm, dns:NAME:PORT, tcpstore, "
             "etcd:HOST:PORT/PREFIX";  // its own errors say more
    case kAddresses:
      return "none, or addresses as in 127.0.0.1:3344 or node[1-4]:3344 separated by commas";
    case kStore:
      return "none, or clickhouse://[USER:PASSWORD@]HOST:8123/DATABASE";
    case kWords:
      return "none, or some of " + Listed(setting.choices) + ", separated by commas";
    case kNames:
      return "none, or names separated by commas";
    case kBounds:
      return "none, or bounds as in loss>10,acc1<0.2";
    case kPattern:
      return "none, or a regular expression of at most 500 characters, on one line";
    case kUrl:
      return "none, or https://[USER:PASSWORD@]HOST[:PORT]/PATH";
    case kHeaders:
      return "none, or name=value,name=value; in a value %20 is a blank and %2C a comma";
    case kSystemLog:
      return "none, on, or the absolute path of a socket";
  }
  return "";
}

std::optional<std::string> CanonicalNumber(const Setting& setting, std::string_view text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity) return std::nullopt;
  const std::optional<double> factor = UnitFactor(setting.type, quantity->unit);
  if (!factor) return std::nullopt;
  const double number = quantity->number * *factor;
  // Written so that a NaN is outside.
  if (!(number >= setting.minimum && number <= setting.maximum)) return std::nullopt;
  if (setting.type == kCount && number != static_cast<double>(static_cast<std::int64_t>(number)))
    return std::nullopt;
  if (setting.type == kShare) return NumberText(std::round(number * 1e6) / 1e6) + "%";
  return setting.type == kSeconds ? NumberText(number) : std::to_string(static_cast<std::int64_t>(number));
}

std::optional<std::string> CanonicalFlag(std::string_view text) {
  for (const std::string_view yes : {"true", "1", "on", "yes"}) {
    if (text == yes) return "true";
  }
  for (const std::string_view no : {"false", "0", "off", "no"}) {
    if (text == no) return "false";
  }
  return std::nullopt;
}

std::optional<std::string> CanonicalChoice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    if (TakePart(choices, '|') == text) return std::string(text);
  }
  return std::nullopt;
}

// As it is: what it means is Python's business.
std::optional<std::string> CanonicalPattern(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  const bool is_line = std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
  return text.size() <= kMostPattern && is_line ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> CanonicalWords(std::string_view choices, std::string_view text) {
  if (text.empty() || text == "none") return "none";
  std::string words = "," + std::string(text) + ",";
  std::erase(words, ' ');
  std::string canonical;
  std::size_t known = 1;  // characters of `words` that are accounted for
  while (!choices.empty()) {
    const std::string choice(TakePart(choices, '|'));
    if (words.find("," + choice + ",") == std::string::npos) continue;
    canonical += canonical.empty() ? choice : "," + choice;
    known += choice.size() + 1;
  }
  if (known != words.size()) return std::nullopt;  // an unknown one, or one twice
  return canonical;
}

std::optional<std::string> CanonicalNames(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  std::string canonical;
  while (!text.empty()) {
    const std::string_view name = Trim(TakePart(text, ','), " ");
    if (name.empty() || name.find_first_of(" \t\n") != std::string_view::npos) return std::nullopt;
    canonical += (canonical.empty() ? "" : ",") + std::string(name);
  }
  return canonical;
}

std::optional<std::string> CanonicalBounds(std::string_view text) {
  const Result<std::vector<Bound>> bounds = ParseBounds(text);
  if (!bounds.ok()) return std::nullopt;
  std::string canonical;
  for (const Bound& bound : *bounds) canonical += (canonical.empty() ? "" : ",") + bound.ToText();
  return canonical.empty() ? "none" : canonical;
}

std::optional<std::string> CanonicalPath(std::string_view text) {
  if (!text.empty() && text.front() != '/') return std::nullopt;
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  return std::string(text);
}

std::optional<std::string> CanonicalAddresses(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  const Result<std::vector<Address>> addresses = ParseAddresses(text);
  if (!addresses.ok()) return std::nullopt;
  std::string canonical;
  for (const Address& address : *addresses) canonical += (canonical.empty() ? "" : ",") + address.ToText();
  return canonical;
}

Result<std::string> CanonicalPeers(const Setting& setting, std::string_view text) {
  Result<std::vector<PeerSource>> sources = ParsePeers(text);
  if (!sources.ok()) {
    sources.error().message = std::string(setting.name) + ": " + sources.error().message;
    return sources.error();
  }
  std::string canonical;
  for (const PeerSource& source : *sources) canonical += (canonical.empty() ? "" : ",") + source.ToText();
  return canonical.empty() ? "none" : canonical;
}

std::optional<std::string> CanonicalStore(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  return ParseStoreUrl(text).ok() ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> CanonicalUrl(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  return ParseOutletUrl(text).ok() ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> CanonicalHeaders(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  return ParseHeaders(text).ok() ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> CanonicalSystemLog(std::string_view text) {
  if (text.empty() || text == "none") return "none";
  if (const std::optional<std::string> flag = CanonicalFlag(text)) return *flag == "true" ? "on" : "none";
  return text.starts_with('/') ? std::optional(std::string(text)) : std::nullopt;
}

}  // namespace

std::span<const Setting> AllSettings() { return kSettings; }

Result<const Setting*> FindSetting(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return &setting;
    names.push_back(setting.name);
  }
  const std::string_view nearest = Nearest(name, names);
  return Error{
      Code::kUsage, "there is no setting " + std::string(name),
      nearest.empty() ? "`probing config` lists all settings" : "did you mean " + std::string(nearest) + "?"};
}

std::string EnvironmentName(const Setting& setting) {
  std::string name(setting.name);
  for (char& c : name) c = c == '.' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return name;
}

Result<std::string> CanonicalValue(const Setting& setting, std::string_view text) {
  if (setting.type == kTorchSpec) return CanonicalTorchSpec(text);
  if (setting.type == kPeers) return CanonicalPeers(setting, text);
  const std::optional<std::string> value = setting.type == kFlag      ? CanonicalFlag(text)
                                           : setting.type == kChoice  ? CanonicalChoice(setting.choices, text)
                                           : setting.type == kWords   ? CanonicalWords(setting.choices, text)
                                           : setting.type == kPath    ? CanonicalPath(text)
                                           : setting.type == kStore   ? CanonicalStore(text)
                                           : setting.type == kNames   ? CanonicalNames(text)
                                           : setting.type == kBounds  ? CanonicalBounds(text)
                                           : setting.type == kPattern ? CanonicalPattern(text)
                                           : setting.type == kUrl     ? CanonicalUrl(text)
                                           : setting.type == kHeaders ? CanonicalHeaders(text)
                                           : setting.type == kSystemLog ? CanonicalSystemLog(text)
                                           : setting.type == kAddresses ? CanonicalAddresses(text)
                                                                        : CanonicalNumber(setting, text);
  if (value) return *value;
  return Error{Code::kUsage, std::string(setting.name) + " cannot be \"" + ShownValue(setting, text) + "\"",
               "it takes " + ExpectedForm(setting)};
}

std::string ShownValue(const Setting& setting, std::string_view value) {
  if (setting.type == kUrl) return ShownUrl(value);
  if (setting.type == kHeaders) return ShownHeaders(value);
  return WithoutPassword(value);
}

std::string ShownValue(std::string_view name, std::string_view value) {
  const Result<const Setting*> setting = FindSetting(name);
  return setting.ok() ? ShownValue(**setting, value) : "***";
}

Settings::Settings(Holder holder) : holder_(holder) {
  for (const Setting& setting : kSettings) {
    if (setting.holder == holder) values_.push_back({&setting, std::string(setting.default_value)});
  }
}

std::vector<Error> Settings::LoadEnvironment() {
  std::vector<Error> errors;
  for (Value& value : values_) {
    const std::string variable = EnvironmentName(*value.setting);
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr) continue;
    Result<std::string> canonical = CanonicalValue(*value.setting, text);
    if (canonical.ok()) {
      value.value = std::move(*canonical);
    } else {
      canonical.error().message = variable + ": " + canonical.error().message;
      errors.push_back(std::move(canonical.error()));
    }
  }
  return errors;
}

Result<void> Settings::Set(std::string_view name, std::string_view text) {
  ASSIGN_OR_RETURN(const Setting* setting, FindSetting(name));
  if (setting->holder != holder_) {
    return Error{Code::kUsage,
                 std::string(name) + (holder_ == kProbe ? " belongs to probingd, not to a target"
                                                        : " belongs to a target, not to probingd"),
                 holder_ == kProbe ? "set it without a target" : "name the target with -t"};
  }
  ASSIGN_OR_RETURN(std::string canonical, CanonicalValue(*setting, text));
  for (Value& value : values_) {
    if (value.setting == setting) value.value = std::move(canonical);
  }
  return {};
}

std::string_view Settings::Get(std::string_view name) const {
  for (const Value& value : values_) {
    if (value.setting->name == name) return value.value;
  }
  return {};
}

double Settings::GetNumber(std::string_view name) const {
  const std::optional<Quantity> quantity = ParseQuantity(Get(name));
  return quantity ? quantity->number : 0;
}

std::string_view Nearest(std::string_view name, std::span<const std::string_view> candidates) {
  return probing::Nearest(name, candidates);
}

}  // namespace probing::wire
