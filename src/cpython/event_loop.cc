#include "cpython/event_loop.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "cpython/containers.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxNames = 64;
constexpr std::size_t kMaxNameCharacters = 64;
constexpr std::size_t kMaxCodes = 4096;   // whose variables are remembered
constexpr std::size_t kMaxStacks = 4096;  // whose loops are
constexpr std::uint64_t kTagBits = 7;     // 3.14 and free-threaded builds mark references in the low bits
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::size_t kLoopObjectWords = 64;  // of a uvloop.Loop, in which its uv_loop_t is looked for
// In a uv_loop_t, whose fields differ between versions of libuv 1.x: the only number there that is a time of
// the last minutes, in milliseconds. 544 was seen.
constexpr std::uint64_t kUvTimeFrom = 480, kUvTimeTo = 640;
constexpr std::uint64_t kUvTimeAgeMs = 600'000;
constexpr std::size_t kOutermost = 24;  // frames in which a loop's owner is looked for

bool EndsWith(const std::string& file, std::string_view end) { return file.ends_with(end); }

bool IsRunOnce(const Frame& frame) {
  return frame.function.ends_with("_run_once") && EndsWith(frame.file, "asyncio/base_events.py");
}

bool IsSelect(const Frame& frame) {
  return frame.function.ends_with("select") && EndsWith(frame.file, "selectors.py");
}

}  // namespace

EventLoopReader::EventLoopReader(const process::Memory& memory, const Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      layout_(ObjectLayout::Of(location)),
      attributes_(memory, location) {}

std::optional<LoopTurn> EventLoopReader::Read(RemoteAddress interpreter, const std::vector<Frame>& frames,
                                              const std::vector<RawFrame>& raw) {
  if (frames.size() != raw.size()) return std::nullopt;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!IsRunOnce(frames[i])) continue;
    LoopTurn turn;
    turn.depth = i;
    turn.is_waiting = i > 0 && IsSelect(frames[i - 1]);
    if (turn.is_waiting) return turn;
    const std::optional<double> seconds = ReadFloat(ValueOf(raw[i], "end_time"));
    if (!seconds || !(*seconds > 0) || *seconds > 1e9) return std::nullopt;  // its first turn
    turn.turned_ns = static_cast<std::int64_t>(*seconds * 1e9);
    return turn;
  }
  return ReadUvLoop(interpreter, frames, raw);
}

EventLoopReader::Index EventLoopReader::FindVariable(RemoteAddress code, std::string_view name) {
  if (variables_.size() > kMaxCodes) variables_.clear();
  auto& known = variables_[code.address];
  const auto found = known.find(std::string(name));
  if (found != known.end()) return found->second;
  const auto tuple = memory_->ReadValue((code + offsets_.code.local_names).As<RemoteAddress>());
  const auto names =
      tuple.ok() ? ReadTuple(*memory_, layout_, *tuple, kMaxNames) : Result<Items>(tuple.error());
  if (!names.ok()) return std::nullopt;
  Index index;
  for (std::size_t i = 0; i < names->items.size() && !index; ++i) {
    const auto text = ReadUnicode(*memory_, offsets_, names->items[i], kMaxNameCharacters);
    if (text.ok() && *text == name) index = i;
  }
  known.emplace(name, index);
  return index;
}

RemoteAddress EventLoopReader::ValueOf(const RawFrame& frame, std::string_view name) {
  const Index index = FindVariable(frame.code, name);
  if (!index) return {};
  const auto slot =
      memory_->ReadValue((frame.address + offsets_.frame.locals + *index * 8).As<std::uint64_t>());
  return slot.ok() ? RemoteAddress{*slot & ~kTagBits} : RemoteAddress{};
}

std::optional<double> EventLoopReader::ReadFloat(RemoteAddress object) const {
  if (!object) return std::nullopt;
  const auto type = attributes_.TypeName(object);
  if (!type.ok() || *type != "float") return std::nullopt;
  const auto number = memory_->ReadValue((object + layout_.value).As<double>());
  return number.ok() && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
}

bool EventLoopReader::HasUvloop(RemoteAddress interpreter) {
  const std::int64_t now_ns = MonotonicNs();
  if (has_uvloop_ || (looked_for_uvloop_ns_ != 0 && now_ns - looked_for_uvloop_ns_ < kSecondNs))
    return has_uvloop_;
  looked_for_uvloop_ns_ = now_ns;
  const auto module = attributes_.FindModule(interpreter, "uvloop.loop");
  has_uvloop_ = module.ok() && *module;
  return has_uvloop_;
}

// A uvloop.Loop points to its uv_loop_t, whose first field points back.
EventLoopReader::UvLoop EventLoopReader::FindUvLoop(RemoteAddress object) const {
  std::array<std::uint64_t, kLoopObjectWords> words{};
  if (!object || !memory_->Read(object, std::as_writable_bytes(std::span(words))).ok()) return {};
  for (const std::uint64_t word : words) {
    if (word < 4096 || word % 8 != 0 || word == object.address) continue;
    std::array<std::uint64_t, kUvTimeTo / 8> fields{};
    if (!memory_->Read(RemoteAddress{word}, std::as_writable_bytes(std::span(fields))).ok()) continue;
    if (fields[0] != object.address) continue;
    const auto now_ms = static_cast<std::uint64_t>(MonotonicNs() / 1'000'000);
    for (std::uint64_t at = kUvTimeFrom; at < kUvTimeTo; at += 8) {
      const std::uint64_t time_ms = fields[at / 8];
      if (time_ms > 0 && time_ms <= now_ms + 1 && time_ms + kUvTimeAgeMs > now_ms)
        return {object, RemoteAddress{word}, at};
    }
  }
  return {};
}

std::optional<LoopTurn> EventLoopReader::ReadUvLoop(RemoteAddress interpreter,
                                                    const std::vector<Frame>& frames,
                                                    const std::vector<RawFrame>& raw) {
  if (frames.empty() || !HasUvloop(interpreter)) return std::nullopt;
  if (uv_loops_.size() > kMaxStacks) uv_loops_.clear();
  UvLoop& known = uv_loops_[raw.back().address.address];
  const std::int64_t now_ns = MonotonicNs();
  if (!known.structure && now_ns - known.looked_ns > kSecondNs) {
    known.looked_ns = now_ns;
    // asyncio.Runner has it in `self._loop`; asyncio.run() of earlier versions, and servers, in `loop`.
    const std::size_t first = frames.size() > kOutermost ? frames.size() - kOutermost : 0;
    for (std::size_t i = frames.size(); i-- > first && !known.structure;) {
      RemoteAddress object = ValueOf(raw[i], "loop");
      if (!object && EndsWith(frames[i].file, "asyncio/runners.py")) {
        const auto held = attributes_.FindAttribute(ValueOf(raw[i], "self"), "_loop");
        if (held.ok()) object = *held;
      }
      known = FindUvLoop(object);
      known.looked_ns = now_ns;
    }
  }
  if (!known.structure) return std::nullopt;
  const auto back = memory_->ReadValue(known.structure.As<std::uint64_t>());
  const auto time_ms = memory_->ReadValue((known.structure + known.time_at).As<std::uint64_t>());
  if (!back.ok() || *back != known.loop.address || !time_ms.ok()) {
    known = {};  // the loop was closed
    return std::nullopt;
  }
  LoopTurn turn;
  turn.turned_ns = static_cast<std::int64_t>(*time_ms) * 1'000'000;
  turn.is_native = true;
  // Callbacks are above what runs the loop.
  turn.depth = frames.size();
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!EndsWith(frames[i].file, "asyncio/runners.py")) continue;
    turn.depth = i;
    break;
  }
  turn.is_waiting = turn.depth == 0;
  return turn;
}

}  // namespace probing::cpython
