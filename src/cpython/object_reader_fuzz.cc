// Objects of every type that is shown, in Pythons 3.6 to 3.12 (the first byte chooses), and of classes made
// of them, in which any word may be wrong.
#include <array>
#include <cstdlib>

#include "cpython/fuzz_patches.h"
#include "cpython/literal.h"
#include "cpython/object_reader.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::array kTypes = {"int",
                               "bool",
                               "float",
                               "str",
                               "bytes",
                               "tuple",
                               "list",
                               "dict",
                               "set",
                               "frozenset",
                               "NoneType",
                               "cell",
                               "type",
                               "code",
                               "builtin_function_or_method",
                               "bytearray",
                               "function",
                               "range",
                               "Mine",
                               "numpy.ndarray",
                               "complex",
                               "slice",
                               "method",
                               "collections.OrderedDict",
                               "collections.defaultdict",
                               "collections.deque",
                               "numpy.float16",
                               "numpy.longdouble",
                               "numpy.datetime64",
                               "torch._C.TensorBase",
                               "torch.Size",
                               "torch.dtype",
                               "torch.device",
                               "time.struct_time"};
// Classes that a program makes of the ones above: a named tuple, an enum, an error, a dataclass.
constexpr std::array kClasses = {"Point", "Color", "Counter", "Failure", "Config"};
constexpr std::uint64_t kHeapType = 1 << 9;
constexpr std::uint64_t kTupleSubclass = 1 << 26;
constexpr std::uint64_t kExceptionSubclass = 1 << 30;
constexpr std::size_t kMaxTextBytes = 1 << 16;

// Some fields that are sizes, characters and pointers to another object at once.
RemoteAddress MakeObject(FakeMemory& memory, RemoteAddress type, RemoteAddress other, std::size_t size) {
  const RemoteAddress object = memory.Allocate(256);
  memory.Write(object + 8, type);
  memory.Write(object + 16, std::uint64_t{size});
  for (std::uint64_t field = 24; field < 256; field += 8) memory.Write(object + field, other);
  return object;
}

RemoteAddress MakeType(FakeMemory& memory, std::string_view name) {
  const RemoteAddress text = memory.Allocate(name.size() + 1);
  memory.Write(text, name);
  const RemoteAddress type = memory.Allocate(512);
  memory.Write(type + 24, text);
  if (name.find('.') != std::string_view::npos) memory.Write(type + 168, kTupleSubclass);
  return type;
}

// With the attributes `_fields` and `__dataclass_fields__`, members and a metaclass like that of enums.
RemoteAddress MakeClass(FakeMemory& memory, std::string_view name, std::uint64_t flags, RemoteAddress base,
                        RemoteAddress dict) {
  const RemoteAddress type = MakeType(memory, name);
  memory.Write(type + 168, kHeapType | flags);
  memory.Write(type + 256, base);
  memory.Write(type + 264, dict);
  memory.Write(type + 288, std::uint64_t{24});
  memory.Write(type + 240, base);
  return type;
}

}  // namespace
}  // namespace probing::cpython

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::cpython;
  if (size == 0) return 0;
  FakeMemory memory(Patches::kMemoryBytes);
  Location location;
  location.version = {3, 6 + data[0] % 7, 1};
  location.offsets = *KnownOffsets(location.version);
  std::vector<RemoteAddress> objects;
  RemoteAddress other;
  for (const char* name : kTypes) {
    other = MakeObject(memory, MakeType(memory, name), other, objects.size() % 5);
    objects.push_back(other);
  }
  std::size_t number = 0;
  const RemoteAddress metaclass = MakeClass(memory, "EnumMeta", 0, {}, other);
  for (const char* name : kClasses) {
    const std::uint64_t flags = number == 0 ? kTupleSubclass : number == 3 ? kExceptionSubclass : 0;
    const RemoteAddress base = *memory.ReadValue((objects[5 + number] + 8).As<RemoteAddress>());
    const RemoteAddress type = MakeClass(memory, name, flags, base, objects[7]);
    if (number == 1) memory.Write(type + 8, metaclass);
    other = MakeObject(memory, type, objects[number], number);
    objects.push_back(other);
    ++number;
  }
  const Patches patches({data + 1, size - 1}, memory);
  LimitedMemory limited(memory);
  limited.Allow(5'000, 1 << 20);
  ObjectReader reader(limited, location);
  for (const RemoteAddress object : objects) {
    if (reader.Describe(object).text.size() > kMaxTextBytes) std::abort();
    (void)reader.Unwrap(object);
  }
  return 0;
}
