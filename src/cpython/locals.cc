#include "cpython/locals.h"

#include <algorithm>

#include "cpython/block.h"
#include "cpython/containers.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxNames = 256;
constexpr std::size_t kMaxNameCharacters = 200;
constexpr std::size_t kMaxReadsPerFrame = 4'000;  // 2 ms
constexpr std::size_t kMaxBytesPerFrame = 1 << 20;
constexpr std::size_t kMaxReads = 150'000;  // of a snapshot: 0.1 s
constexpr std::uint64_t kTagBits = 7;       // 3.14 and free-threaded builds mark references in the low bits

constexpr std::uint32_t kHasArgs = 0x04;      // CO_VARARGS
constexpr std::uint32_t kHasKeywords = 0x08;  // CO_VARKEYWORDS

constexpr std::uint8_t kHidden = 0x10;  // CO_FAST_HIDDEN: of an inlined comprehension
constexpr std::uint8_t kCell = 0x40;    // CO_FAST_CELL
constexpr std::uint8_t kFree = 0x80;    // CO_FAST_FREE

}  // namespace

LocalsReader::LocalsReader(const process::Memory& memory, const Location& location)
    : memory_(std::make_unique<LimitedMemory>(memory)),
      offsets_(location.offsets),
      layout_(ObjectLayout::Of(location)),
      objects_(*memory_, location) {}

void LocalsReader::Begin(int depth) {
  objects_.set_depth(std::clamp(depth, 0, kMaxValueDepth));
  reads_left_ = kMaxReads;
  names_.clear();
  objects_.ForgetTypes();
}

std::vector<Local> LocalsReader::Read(const RawFrame& frame) {
  const std::size_t allowed = std::min(reads_left_, kMaxReadsPerFrame);
  memory_->Allow(allowed, kMaxBytesPerFrame);
  auto locals = TryToRead(frame);
  reads_left_ -= allowed - memory_->reads_left();
  return locals.ok() ? std::move(*locals) : std::vector<Local>{};
}

Result<std::vector<Local>> LocalsReader::TryToRead(const RawFrame& frame) {
  auto known = names_.find(frame.code.address);
  if (known == names_.end()) {
    ASSIGN_OR_RETURN(auto names, ReadNames(frame.code));
    known = names_.emplace(frame.code.address, std::move(names)).first;
  }
  const std::vector<Name>& names = known->second;
  std::vector<std::uint64_t> slots(names.size());
  RETURN_IF_ERROR(
      memory_->Read(frame.address + offsets_.frame.locals, std::as_writable_bytes(std::span(slots))));
  std::vector<Local> locals;
  for (std::size_t i = 0; i < names.size(); ++i) {
    RemoteAddress object{slots[i] & ~kTagBits};
    if (!object || names[i].name.empty()) continue;
    if (names[i].is_cell) {
      const auto content = objects_.Unwrap(object);
      if (content.ok() && !*content) continue;
      if (content.ok()) object = *content;
    }
    ObjectText value = objects_.Describe(object);
    locals.push_back({names[i].name, std::move(value.text), std::move(value.type), names[i].is_argument});
  }
  // Up to 3.10 arguments that inner functions use come after all locals.
  std::stable_partition(locals.begin(), locals.end(), [](const Local& local) { return local.is_argument; });
  return locals;
}

Result<std::vector<LocalsReader::Name>> LocalsReader::ReadNames(RemoteAddress code) const {
  const Offsets::Code& fields = offsets_.code;
  const auto pointer = [&](std::uint32_t field) {
    return memory_->ReadValue((code + field).As<RemoteAddress>());
  };
  ASSIGN_OR_RETURN(const std::size_t arguments, CountArguments(code));
  std::vector<Name> names;
  const auto mark_arguments = [&] {
    const std::size_t count = std::min(arguments, names.size());
    for (std::size_t i = 0; i < count; ++i) names[i].is_argument = true;
  };
  if (fields.local_kinds == kAbsent) {
    for (const std::uint32_t field : {fields.local_names, fields.cell_names, fields.free_names}) {
      ASSIGN_OR_RETURN(const RemoteAddress tuple, pointer(field));
      RETURN_IF_ERROR(AddNames(tuple, field != fields.local_names, names));
      if (field == fields.local_names) mark_arguments();
    }
    // An argument that inner functions use has its value in a cell, under the same name.
    for (Name& name : names) {
      name.is_argument = name.is_argument || std::any_of(names.begin(), names.end(), [&](const Name& other) {
                           return name.is_cell && other.is_argument && other.name == name.name;
                         });
    }
    return names;
  }
  ASSIGN_OR_RETURN(const RemoteAddress tuple, pointer(fields.local_names));
  ASSIGN_OR_RETURN(const RemoteAddress kinds_object, pointer(fields.local_kinds));
  RETURN_IF_ERROR(AddNames(tuple, false, names));
  mark_arguments();
  std::vector<std::uint8_t> kinds(names.size());
  RETURN_IF_ERROR(
      memory_->Read(kinds_object + offsets_.bytes.data, std::as_writable_bytes(std::span(kinds))));
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i].is_cell = (kinds[i] & (kCell | kFree)) != 0;
    if ((kinds[i] & kHidden) != 0) names[i].name.clear();
  }
  return names;
}

Result<std::size_t> LocalsReader::CountArguments(RemoteAddress code) const {
  const Offsets::Code& fields = offsets_.code;
  const auto number = [&](std::uint32_t field) {
    return memory_->ReadValue((code + field).As<std::uint32_t>());
  };
  ASSIGN_OR_RETURN(const std::uint32_t positional, number(fields.argument_count));
  ASSIGN_OR_RETURN(const std::uint32_t keyword_only, number(fields.keyword_count));
  ASSIGN_OR_RETURN(const std::uint32_t flags, number(fields.flags));
  return std::size_t{positional} + keyword_only + ((flags & kHasArgs) != 0 ? 1 : 0) +
         ((flags & kHasKeywords) != 0 ? 1 : 0);
}

Result<void> LocalsReader::AddNames(RemoteAddress tuple, bool are_cells, std::vector<Name>& names) const {
  ASSIGN_OR_RETURN(const Items items, ReadTuple(*memory_, layout_, tuple, kMaxNames - names.size()));
  for (const RemoteAddress item : items.items) {
    ASSIGN_OR_RETURN(std::string name, ReadUnicode(*memory_, offsets_, item, kMaxNameCharacters));
    names.push_back({std::move(name), are_cells});
  }
  return {};
}

}  // namespace probing::cpython
