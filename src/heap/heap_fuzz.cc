// A small heap of Python 3.6 to 3.12 (the first byte chooses) in which any word may be wrong: the collector's
// lists, classes, containers, frames, tensors.
#include <array>
#include <cstdlib>

#include "cpython/fuzz_patches.h"
#include "heap/summary.h"

namespace probing::heap {
namespace {

using cpython::FakeMemory;
using process::RemoteAddress;

constexpr std::array kTypes = {"int",
                               "str",
                               "bytes",
                               "tuple",
                               "list",
                               "dict",
                               "set",
                               "collections.deque",
                               "module",
                               "function",
                               "cell",
                               "generator",
                               "frame",
                               "weakref",
                               "float",
                               "numpy.ndarray",
                               "torch._C.TensorBase",
                               "Mine"};
constexpr std::uint64_t kTypeSubclass = 1U << 31U;
constexpr std::uint64_t kManagedDict = 1U << 4U;
constexpr std::uint64_t kCollected = 1U << 14U;

class FakeHeap {
 public:
  explicit FakeHeap(int minor) {
    location_.version = {3, minor, 1};
    location_.offsets = *cpython::KnownOffsets(location_.version);
    const cpython::Offsets& offsets = location_.offsets;
    const RemoteAddress runtime = memory_.Allocate(1024);
    location_.first_interpreter = runtime;
    if (offsets.runtime.generations != cpython::kAbsent)
      location_.first_interpreter = runtime + offsets.runtime.interpreters_head;
    const RemoteAddress interpreter = memory_.Allocate(1024);
    memory_.Write(location_.first_interpreter, interpreter);
    const RemoteAddress thread = memory_.Allocate(512);
    memory_.Write(interpreter + offsets.interpreter.threads_head, thread);
    memory_.Write(thread + offsets.thread.interpreter, interpreter);
    RemoteAddress lists = memory_.Allocate(512);
    if (offsets.interpreter.generations != cpython::kAbsent) {
      lists = interpreter + offsets.interpreter.generations;
    } else if (offsets.runtime.generations != cpython::kAbsent) {
      lists = runtime + offsets.runtime.generations;
    } else {
      location_.generations = lists;
    }
    for (std::uint64_t i = 0; i < 3; ++i) MakeEmpty(lists + i * offsets.collector.generation);
    // That of frozen objects follows a pointer.
    if (minor >= 7)
      MakeEmpty(lists + 3 * offsets.collector.generation + (offsets.collector.head == 16 ? 8 : 16));
    metaclass_ = MakeType("type", {}, kTypeSubclass);
    memory_.Write(metaclass_ + 8, metaclass_);
    RemoteAddress other = metaclass_;
    for (const char* name : kTypes) {
      const std::uint64_t flags = name == std::string_view("Mine") ? kManagedDict : 0;
      other = MakeObject(lists, MakeType(name, metaclass_, flags | kCollected), other);
    }
    memory_.Write(interpreter + offsets.interpreter.modules, other);
  }

  FakeMemory& memory() { return memory_; }
  const cpython::Location& location() const { return location_; }

 private:
  void MakeEmpty(RemoteAddress list) {
    memory_.Write(list, list);
    memory_.Write(list + 8, list);
  }

  RemoteAddress MakeType(std::string_view name, RemoteAddress metaclass, std::uint64_t flags) {
    const RemoteAddress text = memory_.Allocate(name.size() + 1);
    memory_.Write(text, name);
    const RemoteAddress type = memory_.Allocate(512);
    memory_.Write(type, std::uint64_t{1});
    memory_.Write(type + 8, metaclass);
    memory_.Write(type + 24, text);
    memory_.Write(type + 32, std::uint64_t{96});
    memory_.Write(type + 40, std::uint64_t{8});
    memory_.Write(type + 168, flags);
    return type;
  }

  // At the end of the first list. Its fields are a size, and then what another object is.
  RemoteAddress MakeObject(RemoteAddress list, RemoteAddress type, RemoteAddress other) {
    const std::uint64_t head = location_.offsets.collector.head;
    const RemoteAddress links = memory_.Allocate(head + 256);
    const RemoteAddress object = links + head;
    memory_.Write(object, std::uint64_t{1});
    memory_.Write(object + 8, type);
    memory_.Write(object + 16, std::uint64_t{2});
    for (std::uint64_t field = 24; field < 256; field += 8) memory_.Write(object + field, other);
    const RemoteAddress last = *memory_.ReadValue((list + 8).As<RemoteAddress>());
    memory_.Write(last, links);
    memory_.Write(links, list);
    memory_.Write(links + 8, last);
    memory_.Write(list + 8, links);
    return object;
  }

  FakeMemory memory_{cpython::Patches::kMemoryBytes};
  cpython::Location location_;
  RemoteAddress metaclass_;
};

}  // namespace
}  // namespace probing::heap

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::heap;
  if (size == 0) return 0;
  FakeHeap heap(6 + data[0] % 7);
  const probing::cpython::Patches patches({data + 1, size - 1}, heap.memory());
  constexpr std::uint64_t kStart = probing::cpython::FakeMemory::kBase;
  const auto maps = probing::process::Maps::Of({{.start = kStart,
                                                 .end = kStart + probing::cpython::Patches::kMemoryBytes,
                                                 .readable = true,
                                                 .writable = true}});
  Graph graph(heap.memory(), maps, heap.location(), {.nodes = 4096, .edges = 1 << 16, .milliseconds = 1000});
  if (!graph.Collect().ok()) return 0;
  Report report;
  Summarize(graph, heap.location(), {.top = 5}, report);
  for (const std::uint32_t parent : graph.parents()) {
    if (parent == Graph::kUnreached) std::abort();
  }
  (void)ReportToText(report);
  (void)ReportToJson(report);
  return 0;
}
