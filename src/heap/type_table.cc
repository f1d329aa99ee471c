#include "heap/type_table.h"

#include <array>
#include <string_view>

namespace probing::heap {
namespace {

using process::RemoteAddress;

constexpr int kMaxBases = 32;
constexpr int kMaxMetaclasses = 4;
constexpr std::size_t kMaxNameBytes = 200;
constexpr std::size_t kMaxTypes = 1 << 18;
constexpr std::size_t kMaxKnown = 1 << 22;        // addresses that are no class included
constexpr std::uint64_t kMaxSizeBytes = 1 << 20;  // of an object without its items
constexpr std::uint64_t kMaxItemBytes = 1 << 16;
constexpr std::uint64_t kMaxSharedKeys = 254;

constexpr std::uint64_t kTypeSubclass = 1U << 31U;
constexpr std::uint64_t kHasCollectorLinks = 1U << 14U;  // Py_TPFLAGS_HAVE_GC
constexpr std::uint64_t kManagedWeakList = 1U << 3U;     // Py_TPFLAGS_MANAGED_WEAKREF, since 3.12
constexpr std::uint32_t kWeakListAfterFlags = 40;

struct NamedShape {
  std::string_view name;
  Shape shape;
};
// By the names of classes that are made in C.
constexpr std::array kShapes{
    NamedShape{"int", Shape::kInteger},
    NamedShape{"str", Shape::kText},
    NamedShape{"bytes", Shape::kBytes},
    NamedShape{"bytearray", Shape::kByteArray},
    NamedShape{"tuple", Shape::kTuple},
    NamedShape{"list", Shape::kList},
    NamedShape{"dict", Shape::kDict},
    NamedShape{"set", Shape::kSet},
    NamedShape{"frozenset", Shape::kSet},
    NamedShape{"collections.deque", Shape::kDeque},
    NamedShape{"module", Shape::kModule},
    NamedShape{"type", Shape::kClass},
    NamedShape{"function", Shape::kFunction},
    NamedShape{"cell", Shape::kCell},
    NamedShape{"generator", Shape::kGenerator},
    NamedShape{"coroutine", Shape::kGenerator},
    NamedShape{"async_generator", Shape::kGenerator},
    NamedShape{"frame", Shape::kFrame},
    NamedShape{"weakref", Shape::kWeakReference},
    NamedShape{"weakref.ReferenceType", Shape::kWeakReference},
    NamedShape{"weakproxy", Shape::kWeakReference},
    NamedShape{"weakref.ProxyType", Shape::kWeakReference},
    NamedShape{"weakcallableproxy", Shape::kWeakReference},
    NamedShape{"weakref.CallableProxyType", Shape::kWeakReference},
    NamedShape{"torch._C.TensorBase", Shape::kTensor},
    NamedShape{"torch._C._TensorBase", Shape::kTensor},
    NamedShape{"numpy.ndarray", Shape::kArray},
    NamedShape{"float", Shape::kLeaf},
    NamedShape{"complex", Shape::kLeaf},
    NamedShape{"NoneType", Shape::kLeaf},
    NamedShape{"ellipsis", Shape::kLeaf},
    NamedShape{"NotImplementedType", Shape::kLeaf},
};

}  // namespace

TypeTable::TypeTable(const Chunks& memory, const cpython::Location& location)
    : memory_(&memory),
      layout_(cpython::ObjectLayout::Of(location)),
      minor_(location.version.minor),
      reader_(memory, location) {}

std::uint32_t TypeTable::OfObject(std::uint64_t object) {
  std::uint64_t type = 0;
  if (object % 8 != 0 || !memory_->TryWord(object + layout_.type, type)) return kNone;
  return Find(type);
}

std::uint32_t TypeTable::Find(std::uint64_t address) {
  if (address == last_address_) return last_index_;
  std::uint32_t index = kNone;
  if (const auto known = known_.find(address); known != known_.end()) {
    index = known->second;
  } else {
    if (address != 0 && address % 8 == 0 && types_.size() < kMaxTypes && IsClass(address, 0))
      index = Add(address);
    if (known_.size() < kMaxKnown) known_.emplace(address, index);
  }
  last_address_ = address;
  last_index_ = index;
  return index;
}

// A class is an object of a class of classes; at the end of that chain is `type`, which is its own class.
bool TypeTable::IsClass(std::uint64_t address, int depth) const {
  std::uint64_t metaclass = 0;
  std::uint64_t flags = 0;
  if (depth > kMaxMetaclasses || !memory_->IsMapped(address, layout_.type_dict_offset + 8)) return false;
  if (!memory_->TryWord(address + layout_.type, metaclass) || metaclass == 0 || metaclass % 8 != 0)
    return false;
  if (metaclass == address) {
    return memory_->TryWord(address + layout_.type_flags, flags) && (flags & kTypeSubclass) != 0;
  }
  if (!memory_->TryWord(metaclass + layout_.type_flags, flags) || (flags & kTypeSubclass) == 0) return false;
  return IsClass(metaclass, depth + 1);
}

std::uint32_t TypeTable::Add(std::uint64_t address) {
  TypeInfo info;
  info.address = address;
  const auto word = [&](std::uint32_t offset) {
    std::uint64_t value = 0;
    (void)memory_->TryWord(address + offset, value);
    return value;
  };
  info.size_bytes = word(layout_.type_basic_size);
  info.item_bytes = word(layout_.type_item_size);
  info.flags = word(layout_.type_flags);
  info.dict_offset = static_cast<std::int64_t>(word(layout_.type_dict_offset));
  info.weak_list = word(layout_.type_flags + kWeakListAfterFlags);
  if (info.size_bytes < layout_.value || info.size_bytes > kMaxSizeBytes || info.item_bytes > kMaxItemBytes)
    return kNone;
  const auto type = reader_.Read({address});
  if (!type.ok()) return kNone;
  info.name = type->name;
  info.is_python_class = type->is_python_class;
  FindShape(info);
  if (info.shape == Shape::kPlain && info.built_in_bytes == 0) info.built_in_bytes = layout_.value;
  if ((info.flags & kHasCollectorLinks) != 0) info.in_front_bytes = minor_ <= 7 ? 32 : 16;
  const bool in_front = layout_.attributes != cpython::Attributes::kInDict &&
                        (info.has_managed_dict() || (minor_ >= 12 && (info.flags & kManagedWeakList) != 0));
  if (in_front) info.in_front_bytes += 16;
  if (info.has_managed_dict() && layout_.type_keys != cpython::kAbsent) {
    auto keys = cpython::ReadDictKeys(*memory_, layout_, {word(layout_.type_keys)});
    if (keys.ok() && keys->count <= kMaxSharedKeys) info.shared_keys = *keys;
  }
  types_.push_back(std::move(info));
  return static_cast<std::uint32_t>(types_.size() - 1);
}

void TypeTable::FindShape(TypeInfo& info) const {
  if ((info.flags & kTypeSubclass) != 0) {
    info.shape = Shape::kClass;
    info.built_in_bytes = info.size_bytes;
    return;
  }
  std::uint64_t at = info.address;
  for (int i = 0; i < kMaxBases && at != 0; ++i) {
    std::uint64_t name_at = 0;
    if (!memory_->TryWord(at + layout_.type_name, name_at)) return;
    const auto name = memory_->ReadCString({name_at}, kMaxNameBytes);
    if (!name.ok()) return;
    for (const NamedShape& named : kShapes) {
      if (named.name != *name) continue;
      info.shape = named.shape;
      (void)memory_->TryWord(at + layout_.type_basic_size, info.built_in_bytes);
      return;
    }
    if (!memory_->TryWord(at + layout_.type_base, at)) return;
  }
}

}  // namespace probing::heap
