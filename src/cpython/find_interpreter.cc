#include "cpython/find_interpreter36.h"

#include <algorithm>
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
  const auto state = Block::Read(memory, interpreter, 16);
  if (!state.ok()) return false;
  const RemoteAddress thread = state->GetPointer(offsets.interpreter.threads_head);
  if (!thread || thread.address % 8 != 0) return false;
  const auto first = Block::Read(memory, thread, 24);
  if (!first.ok()) return false;
  next = state->GetPointer(offsets.interpreter.next);
  return first->GetPointer(offsets.thread.interpreter) == interpreter && !first->GetPointer(0);
}

// Interpreters are allocated; most words in the data point to the object itself.
bool IsHeap(const Mapping* mapping) {
  return mapping != nullptr && mapping->writable && (mapping->path.empty() || mapping->path == "[heap]");
}

std::vector<Candidate> FindCandidates(const Memory& memory, const Maps& maps, const Offsets& offsets,
                                      const DataRange& range) {
  std::vector<Candidate> candidates;
  std::unordered_map<std::uint64_t, bool> seen;  // the same pointer may be stored many times
  for (std::size_t i = 0; i < range.words.size(); ++i) {
    const std::uint64_t word = range.words[i];
    if (word == 0 || word % 8 != 0 || !IsHeap(maps.Find(word))) continue;
    const auto [known, is_new] = seen.try_emplace(word, false);
    if (!is_new && !known->second) continue;
    Candidate candidate{range.start + i * 8, {word}, {}};
    known->second = LooksLikeInterpreter(memory, offsets, candidate.interpreter, candidate.next);
    if (known->second) candidates.push_back(candidate);
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

}  // namespace

Result<RemoteAddress> FindInterpreterPointer36(const Memory& memory, const Maps& maps,
                                               const Maps::Object& object, const Offsets& offsets,
                                               RemoteAddress neighbour) {
  DataRange near{{neighbour.address - kNeighbourhoodBytes / 2},
                 std::vector<std::uint64_t>(kNeighbourhoodBytes / 8)};
  if (memory.Read(near.start, std::as_writable_bytes(std::span(near.words))).ok()) {
    if (const auto head = PickHead(FindCandidates(memory, maps, offsets, near))) return *head;
  }
  std::vector<Candidate> candidates;
  for (const DataRange& range : ReadObjectData(memory, maps, object)) {
    const auto more = FindCandidates(memory, maps, offsets, range);
    candidates.insert(candidates.end(), more.begin(), more.end());
  }
  if (const auto head = PickHead(candidates)) return *head;
  return Error{Code::kFailed, "the Python 3.6 in " + object.path + " has no interpreter yet", "try again"};
}

}  // namespace probing::cpython
