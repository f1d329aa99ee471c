#include "cpython/find_interpreter36.h"

#include <algorithm>
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

}  // namespace

Result<RemoteAddress> FindInterpreterPointer36(const Memory& memory, const Maps& maps, const Maps::Object& object,
                                               const Offsets& offsets) {
  std::vector<Candidate> candidates;
  std::unordered_map<std::uint64_t, bool> seen;  // the same pointer is stored many times
  for (const DataRange& range : ReadObjectData(memory, maps, object)) {
    const std::vector<std::uint64_t>& words = range.words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == 0 || words[i] % 8 != 0 || !IsHeap(maps.Find(words[i]))) continue;
      const auto [known, is_new] = seen.try_emplace(words[i], false);
      if (!is_new && !known->second) continue;
      Candidate candidate{range.start + i * 8, {words[i]}, {}};
      known->second = LooksLikeInterpreter(memory, offsets, candidate.interpreter, candidate.next);
      if (known->second) candidates.push_back(candidate);
    }
  }
  // Other variables point to the first interpreter; the list's head is the one nobody is next to.
  const auto is_head = [&](const Candidate& c) {
    return std::none_of(candidates.begin(), candidates.end(),
                        [&](const Candidate& other) { return other.next == c.interpreter; });
  };
  const auto head = std::find_if(candidates.begin(), candidates.end(), is_head);
  if (head != candidates.end()) return head->variable;
  return Error{Code::kFailed, "the Python 3.6 in " + object.path + " has no interpreter yet", ""};
}

}  // namespace probing::cpython
