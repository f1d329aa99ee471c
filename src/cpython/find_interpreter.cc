#include "cpython/find_interpreter.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cpython/block.h"
#include "cpython/object_data.h"

namespace probing::cpython {
namespace {

using process::Mapping;
using process::Maps;
using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kNeighbourhoodBytes = 512;

struct Candidate {
  RemoteAddress variable;
  RemoteAddress interpreter;
  RemoteAddress next;
};

// An interpreter's first thread points back to it and has no thread before itself.
bool LooksLikeInterpreter(const Memory& memory, const Offsets& offsets, RemoteAddress interpreter,
                          RemoteAddress& next) {
  const auto state = Block::Read(memory, interpreter,
                                 std::max(offsets.interpreter.next, offsets.interpreter.threads_head) + 8U);
  if (!state.ok()) return false;
  const RemoteAddress thread = state->GetPointer(offsets.interpreter.threads_head);
  if (!thread || thread.address % 8 != 0) return false;
  const auto first = Block::Read(memory, thread, 24);
  if (!first.ok()) return false;
  next = state->GetPointer(offsets.interpreter.next);
  return first->GetPointer(offsets.thread.interpreter) == interpreter && !first->GetPointer(0);
}

// Interpreters are allocated, or since 3.11 a part of the runtime. Few other words in the data are
// addresses of these.
bool MayBeInterpreter(const Mapping* mapping, const std::string& object) {
  return mapping != nullptr && mapping->writable &&
         (mapping->path.empty() || mapping->path == "[heap]" || mapping->path == object);
}

std::vector<Candidate> FindCandidates(const Memory& memory, const Maps& maps, const std::string& object,
                                      const Offsets& offsets, const DataRange& range) {
  std::vector<Candidate> candidates;
  std::unordered_map<std::uint64_t, std::optional<RemoteAddress>> seen;  // the next one, of interpreters
  for (std::size_t i = 0; i < range.words.size(); ++i) {
    const std::uint64_t word = range.words[i];
    if (word == 0 || word % 8 != 0) continue;
    const auto [known, is_new] = seen.try_emplace(word, std::nullopt);
    RemoteAddress next;
    if (is_new && MayBeInterpreter(maps.Find(word), object) &&
        LooksLikeInterpreter(memory, offsets, {word}, next)) {
      known->second = next;
    }
    if (known->second) candidates.push_back({range.start + i * 8, {word}, *known->second});
  }
  return candidates;
}

// Other variables point to the first interpreter; the list's head is the one nobody is next to.
std::optional<RemoteAddress> PickHead(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    const bool is_next = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
      return other.next == candidate.interpreter;
    });
    if (!is_next) return candidate.variable;
  }
  return std::nullopt;
}

// Since 3.7 the head is in a structure, just before a pointer to the main interpreter.
std::optional<RemoteAddress> PickHeadBeforeMain(const std::vector<Candidate>& candidates) {
  for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
    if (candidates[i + 1].variable == candidates[i].variable + 8) return candidates[i].variable;
  }
  return std::nullopt;
}

std::vector<Candidate> FindAllCandidates(const Memory& memory, const Maps& maps, const Maps::Object& object,
                                         const Offsets& offsets) {
  std::vector<Candidate> candidates;
  for (const DataRange& range : ReadObjectData(memory, maps, object)) {
    const auto more = FindCandidates(memory, maps, object.path, offsets, range);
    candidates.insert(candidates.end(), more.begin(), more.end());
  }
  return candidates;
}

Error NoInterpreter(const Maps::Object& object) {
  return {Code::kFailed, "the Python in " + object.path + " does not run (it starts or ends)", "try again"};
}

}  // namespace

Result<RemoteAddress> FindInterpreterPointer36(const Memory& memory, const Maps& maps,
                                               const Maps::Object& object, const Offsets& offsets,
                                               RemoteAddress neighbour) {
  DataRange near{{neighbour.address - kNeighbourhoodBytes / 2},
                 std::vector<std::uint64_t>(kNeighbourhoodBytes / 8)};
  if (memory.Read(near.start, std::as_writable_bytes(std::span(near.words))).ok()) {
    if (const auto head = PickHead(FindCandidates(memory, maps, object.path, offsets, near))) return *head;
  }
  if (const auto head = PickHead(FindAllCandidates(memory, maps, object, offsets))) return *head;
  return NoInterpreter(object);
}

Result<RemoteAddress> FindInterpreterPointer(const Memory& memory, const Maps& maps,
                                             const Maps::Object& object, const Offsets& offsets) {
  const auto candidates = FindAllCandidates(memory, maps, object, offsets);
  const bool is_in_runtime = offsets.runtime.interpreters_head != kAbsent;
  const auto head = is_in_runtime ? PickHeadBeforeMain(candidates) : PickHead(candidates);
  if (head) return *head;
  return NoInterpreter(object);
}

std::optional<RemoteAddress> FindSelfDescription(const Memory& memory, const Maps& maps,
                                                 const Maps::Object& object) {
  std::uint64_t cookie = 0;
  std::memcpy(&cookie, "xdebugpy", sizeof(cookie));
  for (const DataRange& range : ReadObjectData(memory, maps, object)) {
    for (std::size_t i = 0; i < range.words.size(); ++i) {
      if (range.words[i] != cookie) continue;
      const auto self = ReadDebugOffsets(memory, range.start + i * 8);
      if (self.ok() || self.error().code != Code::kNotFound) return range.start + i * 8;
    }
  }
  return std::nullopt;
}

}  // namespace probing::cpython
