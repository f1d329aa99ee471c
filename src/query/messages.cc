#include "query/packing.h"
#include "query/protocol.h"

namespace probing::query {
namespace {

void PutError(Packer& packer, const SqlError& error) {
  packer.Put(error.code)
      .Put(error.message)
      .Put(error.hint)
      .Put(error.line)
      .Put(error.column)
      .Put(error.limit);
}

bool GetError(Unpacker& unpacker, SqlError& error) {
  return unpacker.Get(error.code) && error.code <= Code::kMistake && unpacker.Get(error.message) &&
         unpacker.Get(error.hint) && unpacker.Get(error.line) && unpacker.Get(error.column) &&
         unpacker.Get(error.limit);
}

void PutLimits(Packer& packer, const Limits& limits) {
  packer.Put(limits.timeout_ms).Put(limits.memory_bytes).Put(limits.rows);
}

bool GetLimits(Unpacker& unpacker, Limits& limits) {
  return unpacker.Get(limits.timeout_ms) && unpacker.Get(limits.memory_bytes) && unpacker.Get(limits.rows);
}

void PutTarget(Packer& packer, const table::Target& target) {
  packer.Put(target.pid).Put(target.rank.has_value()).Put(target.rank.value_or(0)).Put(target.host);
  packer.Put(target.job).Put(target.selected).Put(target.shows_locals).Put(target.may_hold);
  packer.Put(static_cast<std::uint64_t>(target.ring_fds.size()));
}

bool GetTarget(Unpacker& unpacker, table::Target& target, std::vector<ScopedFd>& files,
               std::size_t& next_file) {
  bool has_rank = false;
  std::int64_t rank = 0;
  std::uint64_t file_count = 0;
  const bool complete = unpacker.Get(target.pid) && unpacker.Get(has_rank) && unpacker.Get(rank) &&
                        unpacker.Get(target.host) && unpacker.Get(target.job) &&
                        unpacker.Get(target.selected) && unpacker.Get(target.shows_locals) &&
                        unpacker.Get(target.may_hold) && unpacker.Get(file_count);
  if (!complete || file_count > files.size() - next_file) return false;
  if (has_rank) target.rank = rank;
  for (std::uint64_t i = 0; i < file_count; ++i)
    target.ring_fds.push_back(std::make_shared<const ScopedFd>(std::move(files[next_file++])));
  return true;
}

void PutHistory(Packer& packer, const std::optional<table::HistoryScope>& history) {
  packer.Put(history.has_value());
  if (!history) return;
  packer.Put(history->directory).Put(history->pid.has_value()).Put(history->pid.value_or(0));
  packer.Put(history->job.has_value()).Put(history->job.value_or(""));
}

bool GetHistory(Unpacker& unpacker, std::optional<table::HistoryScope>& history) {
  bool is_there = false;
  bool has_pid = false;
  std::int64_t pid = 0;
  if (!unpacker.Get(is_there)) return false;
  if (!is_there) return true;
  history.emplace();
  bool has_job = false;
  std::string job;
  if (!unpacker.Get(history->directory) || !unpacker.Get(has_pid) || !unpacker.Get(pid) ||
      !unpacker.Get(has_job) || !unpacker.Get(job))
    return false;
  if (has_pid) history->pid = pid;
  if (has_job) history->job = std::move(job);
  return true;
}

}  // namespace

std::string Encode(const OpenMessage& message) {
  return Packer().Put(message.memory_bytes).Put(message.view_directory).Take();
}

bool Decode(std::string_view payload, OpenMessage& message) {
  Unpacker unpacker(payload);
  return unpacker.Get(message.memory_bytes) && unpacker.Get(message.view_directory) && unpacker.done();
}

std::string Encode(const QueryMessage& message) {
  Packer packer;
  packer.Put(message.sql).Put(message.format.format).Put(message.format.width);
  PutLimits(packer, message.limits);
  PutHistory(packer, message.history);
  packer.Put(message.has_gatherer);
  packer.Put(message.recorded_ns.has_value()).Put(message.recorded_ns.value_or(0));
  packer.Put(message.has_provider).Put(static_cast<std::uint64_t>(message.targets.size()));
  for (const table::Target& target : message.targets) PutTarget(packer, target);
  return packer.Take();
}

bool Decode(std::string_view payload, QueryMessage& message, std::vector<ScopedFd> files) {
  Unpacker unpacker(payload);
  std::uint64_t target_count = 0;
  bool is_recorded = false;
  std::int64_t recorded_ns = 0;
  if (!unpacker.Get(message.sql) || !unpacker.Get(message.format.format) ||
      !unpacker.Get(message.format.width) || !GetLimits(unpacker, message.limits) ||
      !GetHistory(unpacker, message.history) || !unpacker.Get(message.has_gatherer) ||
      !unpacker.Get(is_recorded) || !unpacker.Get(recorded_ns) || !unpacker.Get(message.has_provider) ||
      !unpacker.Get(target_count) || target_count > unpacker.rest().size()) {
    return false;
  }
  if (is_recorded) message.recorded_ns = recorded_ns;
  message.targets.resize(target_count);
  std::size_t next_file = 0;
  for (table::Target& target : message.targets) {
    if (!GetTarget(unpacker, target, files, next_file)) return false;
  }
  return unpacker.done() && message.format.format <= Format::kFrame;
}

std::string Encode(const GatherRequest& request) {
  Packer packer;
  packer.Put(request.table).Put(request.is_stored).Put(request.is_rehearsal);
  packer.Put(request.time.from_ns).Put(request.time.to_ns);
  packer.Put(static_cast<std::uint64_t>(request.columns.size()));
  for (const auto& [name, type] : request.columns) packer.Put(name).Put(type);
  return packer.Take();
}

bool Decode(std::string_view payload, GatherRequest& request) {
  Unpacker unpacker(payload);
  std::uint64_t count = 0;
  if (!unpacker.Get(request.table) || !unpacker.Get(request.is_stored) ||
      !unpacker.Get(request.is_rehearsal) || !unpacker.Get(request.time.from_ns) ||
      !unpacker.Get(request.time.to_ns) || !unpacker.Get(count) || count > unpacker.rest().size()) {
    return false;
  }
  request.columns.resize(count);
  for (auto& [name, type] : request.columns) {
    if (!unpacker.Get(name) || !unpacker.Get(type) || type > table::Type::kTimestamp) return false;
  }
  return unpacker.done();
}

std::string EncodeTexts(const std::vector<std::string>& texts) { return Packer().Put(texts).Take(); }

bool DecodeTexts(std::string_view text, std::vector<std::string>& texts) {
  Unpacker unpacker(text);
  return unpacker.Get(texts) && unpacker.done();
}

std::string Encode(const NeedMessage& message) {
  return Packer().Put(message.table).Put(message.target).Put(message.columns).Take();
}

bool Decode(std::string_view payload, NeedMessage& message) {
  Unpacker unpacker(payload);
  return unpacker.Get(message.table) && unpacker.Get(message.target) && unpacker.Get(message.columns) &&
         unpacker.done();
}

std::string Encode(const EndMessage& message) {
  Packer packer;
  packer.Put(message.rows).Put(message.warnings).Put(message.body).Put(message.leaves);
  packer.Put(message.error.has_value());
  if (message.error) PutError(packer, *message.error);
  return packer.Take();
}

bool Decode(std::string_view payload, EndMessage& message) {
  Unpacker unpacker(payload);
  bool has_error = false;
  if (!unpacker.Get(message.rows) || !unpacker.Get(message.warnings) || !unpacker.Get(message.body) ||
      !unpacker.Get(message.leaves) || !unpacker.Get(has_error)) {
    return false;
  }
  if (has_error && !GetError(unpacker, message.error.emplace())) return false;
  return unpacker.done();
}

std::string EncodeResult(const Result<std::string>& result) {
  Packer packer;
  packer.Put(result.ok());
  if (result.ok()) return packer.Put(*result).Take();
  return packer.Put(result.error().code).Put(result.error().message).Put(result.error().hint).Take();
}

Result<std::string> DecodeResult(std::string_view payload) {
  Unpacker unpacker(payload);
  bool is_ok = false;
  std::string text;
  Error error;
  if (!unpacker.Get(is_ok)) return Error{Code::kFailed, "a message of the query worker is damaged", ""};
  if (is_ok && unpacker.Get(text)) return text;
  if (!is_ok && unpacker.Get(error.code) && unpacker.Get(error.message) && unpacker.Get(error.hint))
    return error;
  return Error{Code::kFailed, "a message of the query worker is damaged", ""};
}

}  // namespace probing::query
