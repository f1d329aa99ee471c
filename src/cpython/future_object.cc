#include "cpython/future_object.h"

#include <algorithm>
#include <string>

#include "cpython/block.h"
#include "cpython/containers.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxBases = 16;
constexpr std::size_t kMaxNameCharacters = 64;  // of classes and modules that are compared
constexpr std::uint32_t kPending = 0;           // enum fut_state

// Of a FutureObj, from the end of the object's head; 3.6 has the list where the others have the first one.
constexpr std::uint32_t kCallback0 = 8;
constexpr std::uint32_t kCallbacks = 24;
constexpr std::uint32_t kCallbacks36 = 8;

// Of a TaskObj up to 3.12: `state` lies before `dict`; behind it are fut_waiter, coro, name (since 3.8),
// context (since 3.7), bits, and a counter since 3.11.
constexpr std::uint32_t kStateBeforeDict = 16;
constexpr std::uint32_t WaiterBeforeEnd(int minor) {
  return minor == 6 ? 24 : minor == 7 ? 32 : minor <= 10 ? 40 : 48;
}
constexpr std::uint32_t kTypeSizeBehindName = 8;  // tp_basicsize
constexpr std::uint32_t kMinTaskBytes = 96;
constexpr std::uint32_t kMaxTaskBytes = 512;

Error NotFound() { return {Code::kNotFound, "no task that could be read", ""}; }

}  // namespace

FutureReader::FutureReader(const Memory& memory, const Location& location, const TaskLayout& own_layout)
    : memory_(&memory),
      offsets_(location.offsets),
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      own_layout_(own_layout),
      minor_(location.version.minor) {}

Result<TaskFields> FutureReader::ReadTask(RemoteAddress object) {
  ASSIGN_OR_RETURN(const Class found, ClassOf(object));
  if (found.kind == Kind::kTaskInPython) return ReadPythonTask(object, found.layout);
  if (found.kind != Kind::kTaskInC) return NotFound();
  const TaskLayout& layout = found.layout;
  const std::uint32_t last = layout.name != kAbsent ? layout.name : layout.coroutine;
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, object + objects_.value, last + 8U));
  return TaskFields{.is_pending = block.Get<std::uint32_t>(layout.state) == kPending,
                    .loop = block.GetPointer(0),
                    .coroutine = block.GetPointer(layout.coroutine),
                    .name = block.GetPointer(layout.name),
                    .waiter = block.GetPointer(layout.waiter)};
}

Result<bool> FutureReader::IsFuture(RemoteAddress object) {
  ASSIGN_OR_RETURN(const Class found, ClassOf(object));
  return found.kind != Kind::kOther;
}

Result<std::vector<RemoteAddress>> FutureReader::ReadCallbacks(RemoteAddress future,
                                                               std::size_t max_callbacks) {
  ASSIGN_OR_RETURN(const Class found, ClassOf(future));
  std::vector<RemoteAddress> callbacks;
  RemoteAddress list;
  const bool is_in_python = found.kind == Kind::kFutureInPython || found.kind == Kind::kTaskInPython;
  if (is_in_python && found.layout.state == kAbsent) {
    ASSIGN_OR_RETURN(list, AttributeOrNull(future, "_callbacks"));
  } else {
    ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, future + objects_.value, kCallbacks + 8));
    list = block.GetPointer(minor_ == 6 ? kCallbacks36 : kCallbacks);
    const RemoteAddress first = block.GetPointer(kCallback0);
    if (minor_ > 6 && first) callbacks.push_back(first);
  }
  if (!list) return callbacks;
  ASSIGN_OR_RETURN(const std::string type, attributes_.TypeName(list));
  if (type != "list") return callbacks;
  ASSIGN_OR_RETURN(const Items items, ReadList(*memory_, objects_, list, max_callbacks));
  for (RemoteAddress item : items.items) {
    // A pair of the callable and its context since 3.7.
    if (minor_ > 6) {
      ASSIGN_OR_RETURN(const Items pair, ReadTuple(*memory_, objects_, item, 1));
      if (pair.items.empty()) continue;
      item = pair.items.front();
    }
    callbacks.push_back(item);
  }
  if (callbacks.size() > max_callbacks) callbacks.resize(max_callbacks);
  return callbacks;
}

Result<FutureReader::Class> FutureReader::ClassOf(RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto type, memory_->ReadValue((object + objects_.type).As<RemoteAddress>()));
  if (const auto known = classes_.find(type.address); known != classes_.end()) return known->second;
  ASSIGN_OR_RETURN(const Class found, Classify(type));
  classes_.emplace(type.address, found);
  return found;
}

// By the classes it is made of: those of `_asyncio`, or those that asyncio has in Python.
Result<FutureReader::Class> FutureReader::Classify(RemoteAddress type) const {
  Class found;
  for (std::size_t i = 0; type && i < kMaxBases; ++i) {
    ASSIGN_OR_RETURN(const auto at, memory_->ReadValue((type + objects_.type_name).As<RemoteAddress>()));
    ASSIGN_OR_RETURN(const std::string name, memory_->ReadCString(at, kMaxNameCharacters));
    if (name == "_asyncio.Future") {
      if (found.kind == Kind::kOther) return Class{Kind::kFutureInC, {}};
      ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, type, objects_.type_dict_offset + 8U));
      found.layout.state =
          block.Get<std::uint32_t>(objects_.type_dict_offset) - objects_.value - kStateBeforeDict;
      return found;
    }
    if (name == "_asyncio.Task") {
      ASSIGN_OR_RETURN(const TaskLayout layout, LayoutOf(type));
      return Class{Kind::kTaskInC, layout};
    }
    if (name == "Task" || name == "Future") {
      ASSIGN_OR_RETURN(const auto module, attributes_.FindInClass(type, "__module__"));
      const auto text = module ? ReadUnicode(*memory_, offsets_, module, kMaxNameCharacters)
                               : Result<std::string>(NotFound());
      if (text.ok() && *text == "asyncio.tasks") found.kind = Kind::kTaskInPython;
      if (text.ok() && *text == "asyncio.futures" && found.kind == Kind::kOther) {
        found.kind = Kind::kFutureInPython;
      }
    }
    ASSIGN_OR_RETURN(type, memory_->ReadValue((type + objects_.type_base).As<RemoteAddress>()));
  }
  return found;
}

Result<TaskLayout> FutureReader::LayoutOf(RemoteAddress type) const {
  if (minor_ >= 14) return own_layout_.state != kAbsent ? own_layout_ : Result<TaskLayout>(NotFound());
  // As seen in 3.13.0: since then the class has no `__dict__` at a place of its own.
  if (minor_ == 13) return TaskLayout{.state = 80, .waiter = 96, .coroutine = 104, .name = 112};
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, type, objects_.type_dict_offset + 8U));
  const auto size = block.Get<std::uint64_t>(objects_.type_name + kTypeSizeBehindName);
  const auto dict = block.Get<std::uint64_t>(objects_.type_dict_offset);
  if (size < kMinTaskBytes || size > kMaxTaskBytes || dict > size ||
      dict < objects_.value + kStateBeforeDict) {
    return NotFound();
  }
  TaskLayout layout;
  layout.state = static_cast<std::uint32_t>(dict) - objects_.value - kStateBeforeDict;
  layout.waiter = static_cast<std::uint32_t>(size) - objects_.value - WaiterBeforeEnd(minor_);
  layout.coroutine = layout.waiter + 8;
  if (minor_ >= 8) layout.name = layout.coroutine + 8;
  return layout;
}

Result<TaskFields> FutureReader::ReadPythonTask(RemoteAddress object, const TaskLayout& layout) const {
  TaskFields fields;
  if (layout.state != kAbsent) {
    const RemoteAddress value = object + objects_.value;
    ASSIGN_OR_RETURN(fields.loop, memory_->ReadValue(value.As<RemoteAddress>()));
    ASSIGN_OR_RETURN(const auto state, memory_->ReadValue((value + layout.state).As<std::uint32_t>()));
    fields.is_pending = state == kPending;
  } else {
    ASSIGN_OR_RETURN(fields.loop, AttributeOrNull(object, "_loop"));
    ASSIGN_OR_RETURN(const RemoteAddress state, AttributeOrNull(object, "_state"));
    fields.is_pending = !state;  // the class says PENDING until the object says something else
    if (state) {
      ASSIGN_OR_RETURN(const std::string text, ReadUnicode(*memory_, offsets_, state, kMaxNameCharacters));
      fields.is_pending = text == "PENDING";
    }
  }
  ASSIGN_OR_RETURN(fields.coroutine, AttributeOrNull(object, "_coro"));
  ASSIGN_OR_RETURN(fields.name, AttributeOrNull(object, "_name"));
  ASSIGN_OR_RETURN(fields.waiter, AttributeOrNull(object, "_fut_waiter"));
  return fields;
}

// None counts as null.
Result<RemoteAddress> FutureReader::AttributeOrNull(RemoteAddress object, std::string_view name) const {
  ASSIGN_OR_RETURN(const RemoteAddress value, attributes_.FindAttribute(object, name));
  if (!value) return value;
  ASSIGN_OR_RETURN(const std::string type, attributes_.TypeName(value));
  return type == "NoneType" ? RemoteAddress{} : value;
}

}  // namespace probing::cpython
