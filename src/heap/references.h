// What an object refers to, and how big it is. Nothing is believed: sizes have to fit into what is mapped,
// and what a word points to has to be an object of a class.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpython/arrays.h"
#include "heap/type_table.h"

namespace probing::heap {

// The way from an object to another one.
enum class Way : std::uint8_t {
  kField,      // at `detail` bytes from its start, of whatever name
  kItem,       // number `detail`
  kKey,        // of a dict, or an element of a set
  kValue,      // of a dict, under the key at `detail`
  kAttribute,  // kept as a value; at `detail` is a pointer to its name
  kDict,       // its `__dict__`
  kLocal,      // of a frame, number `detail`
  kTemporary,  // of a frame, on its stack
  kFrame,      // of a thread
  kStorage,    // the memory of a tensor; `target` is no object
  kGradient,   // the same of its gradient
};

struct Reference {
  std::uint64_t target = 0;
  std::uint64_t detail = 0;
  Way way = Way::kField;
};

struct Contents {
  std::vector<Reference> references;
  std::uint64_t own_bytes = 0;
  std::vector<cpython::TensorStorage> storages;  // of references of that kind, in their order
  bool is_whole = true;                          // false: a part could not be read, or made no sense

  void Clear();
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class ReferenceReader {
 public:
  ReferenceReader(const Chunks& memory, const cpython::Location& location);

  // Of an object of this class.
  void ReadObject(std::uint64_t object, const TypeInfo& type, Contents& contents);
  // Of a frame of a running thread, since 3.11, that is no object.
  void ReadFrame(std::uint64_t frame, Contents& contents, bool stands_still);
  // Every word that is the address of an object, from `start` on. Words that cannot be read are left out.
  void ReadWords(std::uint64_t start, std::uint64_t end, Contents& contents);

  // The code object of a frame; 0 when it cannot be read.
  std::uint64_t CodeOf(std::uint64_t frame) const;
  std::uint64_t CodeOfFunction(std::uint64_t function) const;
  // 0: it has none any more.
  std::uint64_t FrameOfGenerator(std::uint64_t generator) const;

 private:
  struct CodeSizes {
    std::uint64_t locals = 0, stack = 0;
  };

  void Add(std::uint64_t target, Way way, std::uint64_t detail, Contents& contents) {
    if (target != 0 && target % 8 == 0) contents.references.push_back({target, detail, way});
  }
  bool TryBlock(std::uint64_t from, std::span<std::uint64_t> words) const {
    return memory_->TryRead(from, std::as_writable_bytes(words));
  }
  // Words in pieces: calls `use(index, words)` for each group of `stride` words. False: not all can be read.
  template <typename Use>
  bool ForEachGroup(std::uint64_t from, std::uint64_t count, std::uint64_t stride, Use use) const;

  void ReadFields(std::uint64_t object, std::uint64_t from, std::uint64_t to, const TypeInfo& type,
                  Contents& contents);
  void ReadAttributes(std::uint64_t object, const TypeInfo& type, Contents& contents);
  void ReadValues(std::uint64_t values, const cpython::DictKeys& keys, Contents& contents);
  void ReadDict(std::uint64_t dict, Contents& contents);
  void ReadSet(std::uint64_t set, std::uint64_t built_in_bytes, Contents& contents);
  void ReadDeque(std::uint64_t deque, Contents& contents);
  void ReadGenerator(std::uint64_t generator, Contents& contents);
  void ReadFrameObject(std::uint64_t frame, const TypeInfo& type, Contents& contents);
  std::uint64_t ReadFrameParts(std::uint64_t frame, bool stands_still, Contents& contents);
  void ReadFrameSlots(std::uint64_t frame, std::uint64_t code, bool stands_still, Contents& contents);
  void ReadTensor(std::uint64_t tensor, Contents& contents);
  void ReadArray(std::uint64_t array, Contents& contents);
  std::uint64_t TextBytes(std::uint64_t text) const;
  CodeSizes SizesOf(std::uint64_t code);

  const Chunks* memory_;
  cpython::Offsets offsets_;
  cpython::ObjectLayout layout_;
  int minor_;
  std::unordered_map<std::uint64_t, CodeSizes> codes_;
};

}  // namespace probing::heap
