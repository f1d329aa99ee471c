// Objects of every type that is shown, in Pythons 3.6 to 3.12 (the first byte chooses), in which any
// word may be wrong.
#include <array>
#include <cstdlib>

#include "cpython/fuzz_patches.h"
#include "cpython/literal.h"
#include "cpython/object_reader.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::array kTypes = {"int",       "bool",     "float", "str",  "bytes",
                               "tuple",     "list",     "dict",  "set",  "frozenset",
                               "NoneType",  "cell",     "type",  "code", "builtin_function_or_method",
                               "bytearray", "function", "range", "Mine", "numpy.ndarray"};
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
