#include "cpython/thread_names.h"

#include "cpython/attributes.h"
#include "cpython/containers.h"
#include "cpython/text.h"
#include "process/page_cache.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxThreads = 4096;
constexpr std::size_t kMaxNameCharacters = 4096;
constexpr int kAttempts = 3;

Error NoName() { return {Code::kFailed, "the thread is no thread any more", ""}; }

Result<std::string> ReadName(const Memory& memory, const Location& location, const AttributeReader& reader,
                             RemoteAddress thread, std::uint64_t ident) {
  ASSIGN_OR_RETURN(const RemoteAddress name, reader.FindAttribute(thread, "_name"));
  if (!name) return NoName();
  ASSIGN_OR_RETURN(std::string text, ReadUnicode(memory, location.offsets, name, kMaxNameCharacters));
  ASSIGN_OR_RETURN(const RemoteAddress same, reader.FindAttribute(thread, "_ident"));
  if (!same) return NoName();
  ASSIGN_OR_RETURN(const std::uint64_t ident_now, reader.ReadUnsigned(same));
  if (ident_now != ident) return NoName();
  return text;
}

// Fails when something changed before all threads were found.
Result<ThreadNames> TryToRead(const Memory& memory, const Location& location, RemoteAddress interpreter) {
  const AttributeReader reader(memory, location);
  ThreadNames names;
  ASSIGN_OR_RETURN(const RemoteAddress module, reader.FindModule(interpreter, "threading"));
  if (!module) return names;
  ASSIGN_OR_RETURN(const RemoteAddress active, reader.FindVariable(module, "_active"));
  if (!active) return names;
  ASSIGN_OR_RETURN(const DictItems threads, ReadDict(memory, reader.layout(), active, kMaxThreads));
  for (const auto& [key, thread] : threads.items) {
    const auto ident = reader.ReadUnsigned(key);
    if (!ident.ok()) continue;
    auto name = ReadName(memory, location, reader, thread, *ident);
    if (name.ok()) names.emplace(*ident, std::move(*name));
  }
  return names;
}

}  // namespace

ThreadNames ReadThreadNames(const Memory& memory, const Location& location, RemoteAddress interpreter) {
  for (int i = 0; i < kAttempts; ++i) {
    // The threads' objects share their type and lie side by side; the identity of each is checked.
    const process::PageCache pages(memory);
    auto names = TryToRead(pages, location, interpreter);
    if (names.ok()) return std::move(*names);
  }
  return {};
}

}  // namespace probing::cpython
