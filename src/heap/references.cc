#include "heap/references.h"

#include <algorithm>
#include <array>

#include "cpython/containers.h"

namespace probing::heap {
namespace {

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kMaxItems = 1U << 26U;                // of one object; they have to be mapped, too
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40U;  // the same of str, bytes and int
constexpr std::uint64_t kMaxSlots = 1U << 16U;                // of a frame
constexpr std::size_t kPieceWords = 6 * 1024;                 // what is copied at once: a multiple of 2 and 3
constexpr std::uint64_t kStaticTypeBytes = 400;               // of a class that is not on the heap
constexpr std::uint32_t kModuleState = 16;                    // after the head of a module
constexpr std::uint64_t kDequeBlockItems = 64;
constexpr int kFirstWithFrameInside = 11;

// Of a generator, from the end of its head (cpython/await_chain.cc).
constexpr std::uint32_t kFrameState311 = 59;
constexpr std::uint32_t kFrame311 = 64;
constexpr std::uint32_t kFrameState = 51;
constexpr std::uint32_t kFrame = 56;
constexpr std::int8_t kExecuting = 0;  // less: not started or suspended; more: done

// PyArrayObject.
constexpr int kOwnsData = 4;
constexpr int kRowsFollow = 1;     // NPY_ARRAY_C_CONTIGUOUS
constexpr int kColumnsFollow = 2;  // NPY_ARRAY_F_CONTIGUOUS
constexpr std::int32_t kObjectArray = 17;
constexpr std::int32_t kMaxDimensions = 64;

}  // namespace

void Contents::Clear() {
  references.clear();
  storages.clear();
  own_bytes = 0;
  is_whole = true;
}

ReferenceReader::ReferenceReader(const Chunks& memory, const cpython::Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      layout_(cpython::ObjectLayout::Of(location)),
      minor_(location.version.minor) {}

template <typename Use>
bool ReferenceReader::ForEachGroup(std::uint64_t from, std::uint64_t count, std::uint64_t stride,
                                   Use use) const {
  if (count > kMaxItems || !memory_->IsMapped(from, count * stride * kWord)) return count == 0;
  std::array<std::uint64_t, kPieceWords> words;  // NOLINT: filled before use
  const std::uint64_t at_once = kPieceWords / stride;
  for (std::uint64_t first = 0; first < count; first += at_once) {
    const std::uint64_t here = std::min(at_once, count - first);
    const auto piece = std::span(words).first(here * stride);
    if (!TryBlock(from + first * stride * kWord, piece)) return false;
    for (std::uint64_t i = 0; i < here; ++i) use(first + i, piece.data() + i * stride);
  }
  return true;
}

void ReferenceReader::ReadObject(std::uint64_t object, const TypeInfo& type, Contents& contents) {
  contents.own_bytes = type.size_bytes + type.in_front_bytes;
  const std::uint64_t value = object + layout_.value;
  std::uint64_t first = 0;
  if (!memory_->TryWord(value, first) && type.size_bytes > layout_.value) {
    contents.is_whole = false;
    return;
  }
  std::uint64_t items = 0;  // in the object
  switch (type.shape) {
    case Shape::kPlain:
      ReadFields(object, layout_.value, type.size_bytes, type, contents);
      break;
    case Shape::kLeaf:
    case Shape::kByteArray:
      break;
    case Shape::kInteger: {
      const auto size = static_cast<std::int64_t>(first);
      items = layout_.int_has_tag ? first >> 3U : static_cast<std::uint64_t>(size < 0 ? -size : size);
      break;
    }
    case Shape::kBytes:
      items = first;
      break;
    case Shape::kText:
      contents.own_bytes = std::max(contents.own_bytes, type.in_front_bytes + TextBytes(object));
      break;
    case Shape::kTuple:
      items = first;
      contents.is_whole = ForEachGroup(object + layout_.tuple_items, items, 1, [&](auto i, const auto* word) {
        Add(*word, Way::kItem, i, contents);
      });
      break;
    case Shape::kList: {
      std::array<std::uint64_t, 3> head{};  // size, items, room
      contents.is_whole =
          TryBlock(value, head) && ForEachGroup(head[1], head[0], 1, [&](auto i, const auto* word) {
            Add(*word, Way::kItem, i, contents);
          });
      if (head[1] != 0 && head[2] >= head[0] && memory_->IsMapped(head[1], head[2]))
        contents.own_bytes += head[2] * kWord;
      break;
    }
    case Shape::kDict:
      ReadDict(object, contents);
      break;
    case Shape::kSet:
      ReadSet(object, type.built_in_bytes, contents);
      break;
    case Shape::kDeque:
      ReadDeque(object, contents);
      break;
    case Shape::kClass: {
      // A static one ends before what classes of class statements have, and others follow it.
      const std::uint64_t end = type.size_bytes;
      std::uint64_t flags = 0;
      (void)memory_->TryWord(object + layout_.type_flags, flags);
      const bool is_static = (flags & 1U << 9U) == 0;
      ReadFields(object, layout_.value, is_static ? std::min(end, kStaticTypeBytes) : end, type, contents);
      break;
    }
    case Shape::kModule:
      // Not what a module in C keeps for itself: two classes there look like an object of the second one.
      ReadFields(object, layout_.value, layout_.value + kModuleState, type, contents);
      ReadFields(object, layout_.value + kModuleState + kWord, type.built_in_bytes, type, contents);
      break;
    case Shape::kFunction:
    case Shape::kCell:
      ReadFields(object, layout_.value, type.built_in_bytes, type, contents);
      break;
    case Shape::kGenerator:
      ReadGenerator(object, contents);
      break;
    case Shape::kFrame:
      ReadFrameObject(object, type, contents);
      break;
    case Shape::kWeakReference:
      ReadFields(object, layout_.value + kWord, layout_.value + 2 * kWord, type, contents);  // its callback
      break;
    case Shape::kTensor:
      ReadFields(object, layout_.value, type.built_in_bytes, type, contents);
      ReadTensor(object, contents);
      break;
    case Shape::kArray:
      ReadFields(object, layout_.value, type.built_in_bytes, type, contents);
      ReadArray(object, contents);
      break;
  }
  if (items > kMaxBytes || !memory_->IsMapped(object, items * std::max<std::uint64_t>(type.item_bytes, 1))) {
    contents.is_whole = false;
    items = 0;
  }
  contents.own_bytes += items * type.item_bytes;
  if (type.shape != Shape::kPlain && type.shape != Shape::kClass && type.size_bytes > type.built_in_bytes)
    ReadFields(object, type.built_in_bytes, type.size_bytes, type, contents);
  if (type.has_managed_dict()) {
    ReadAttributes(object, type, contents);
  } else if (type.dict_offset < 0) {
    const std::uint64_t size = (type.size_bytes + items * type.item_bytes + kWord - 1) / kWord * kWord;
    std::uint64_t dict = 0;
    if (static_cast<std::uint64_t>(-type.dict_offset) < size &&
        memory_->TryWord(object + size + static_cast<std::uint64_t>(type.dict_offset), dict))
      Add(dict, Way::kDict, 0, contents);
  }
}

void ReferenceReader::ReadWords(std::uint64_t start, std::uint64_t end, Contents& contents) {
  for (std::uint64_t at = start; at < end; at += kWord) {
    std::uint64_t word = 0;
    if (memory_->TryWord(at, word)) Add(word, Way::kField, at - start, contents);
  }
}

// Words of an object that may be references, and may be anything else.
void ReferenceReader::ReadFields(std::uint64_t object, std::uint64_t from, std::uint64_t to,
                                 const TypeInfo& type, Contents& contents) {
  from = (from + kWord - 1) / kWord * kWord;
  if (to <= from) return;
  const bool whole = ForEachGroup(object + from, (to - from) / kWord, 1, [&](auto i, const auto* word) {
    const std::uint64_t offset = from + i * kWord;
    if (offset == type.weak_list) return;
    const bool is_dict = type.dict_offset > 0 && offset == static_cast<std::uint64_t>(type.dict_offset);
    Add(*word, is_dict ? Way::kDict : Way::kField, offset, contents);
  });
  contents.is_whole = contents.is_whole && whole;
}

// Since 3.11: in front of the object there is a pointer to a dict, or to values, or both.
void ReferenceReader::ReadAttributes(std::uint64_t object, const TypeInfo& type, Contents& contents) {
  const std::uint64_t front = object - layout_.managed_dict_before;
  std::uint64_t dict = 0;
  std::uint64_t values = 0;
  if (!memory_->TryWord(front, dict)) {
    contents.is_whole = false;
    return;
  }
  if (layout_.attributes == cpython::Attributes::kPointers) {
    (void)memory_->TryWord(front - kWord, values);
  } else if (layout_.attributes == cpython::Attributes::kTagged && (dict & 1U) != 0) {
    values = dict + 1;
    dict = 0;
  } else if (layout_.attributes == cpython::Attributes::kInline && type.has_inline_values()) {
    // Capacity, size, whether they are in the object, whether they count.
    std::array<std::uint8_t, 4> head{};
    if (memory_->TryRead(object + type.size_bytes, std::as_writable_bytes(std::span(head)))) {
      contents.own_bytes += kWord + head[0] * kWord;
      if (head[3] != 0 && dict == 0) values = object + type.size_bytes;
    }
  }
  if (dict != 0) Add(dict, Way::kDict, 0, contents);
  if (values == 0) return;
  if (layout_.attributes != cpython::Attributes::kInline)
    contents.own_bytes += (1 + type.shared_keys.count) * kWord;
  ReadValues(values, type.shared_keys, contents);
}

void ReferenceReader::ReadValues(std::uint64_t values, const cpython::DictKeys& keys, Contents& contents) {
  const bool whole = ForEachGroup(values + layout_.dict_values, keys.count, 1, [&](auto i, const auto* word) {
    Add(*word, Way::kAttribute, keys.entries.address + ((i + 1) * keys.words_per_entry - 2) * kWord,
        contents);
  });
  contents.is_whole = contents.is_whole && whole;
}

void ReferenceReader::ReadDict(std::uint64_t dict, Contents& contents) {
  std::array<std::uint64_t, 4> head{};  // used, version, keys, values
  if (!TryBlock(dict + layout_.value, head)) {
    contents.is_whole = false;
    return;
  }
  const auto keys = cpython::ReadDictKeys(*memory_, layout_, {head[2]});
  if (!keys.ok() || keys->count > kMaxItems) {
    contents.is_whole = head[0] == 0;
    return;
  }
  if (head[3] != 0) {  // its keys are shared
    contents.own_bytes += (keys->count + 1) * kWord;
    ReadValues(head[3], *keys, contents);
    return;
  }
  // An empty one uses a table that is shared by all.
  const std::uint64_t room = keys->count + std::min(keys->usable, kMaxItems);
  const std::uint64_t table = keys->entries.address - head[2] + room * keys->words_per_entry * kWord;
  if (head[0] != 0 && memory_->IsMapped(head[2], table)) contents.own_bytes += table;
  const std::uint64_t stride = keys->words_per_entry;
  contents.is_whole = ForEachGroup(keys->entries.address, keys->count, stride, [&](auto, const auto* entry) {
    const std::uint64_t key = entry[stride - 2];
    const std::uint64_t value = entry[stride - 1];
    if (key == 0 || value == 0) return;
    Add(key, Way::kKey, 0, contents);
    Add(value, Way::kValue, key, contents);
  });
}

void ReferenceReader::ReadSet(std::uint64_t set, std::uint64_t built_in_bytes, Contents& contents) {
  std::array<std::uint64_t, 4> head{};  // fill, used, mask, table of {key, hash}
  if (!TryBlock(set + layout_.value, head) || head[2] >= kMaxItems) {
    contents.is_whole = false;
    return;
  }
  if (head[3] < set || head[3] >= set + built_in_bytes) contents.own_bytes += (head[2] + 1) * 2 * kWord;
  contents.is_whole = ForEachGroup(head[3], head[2] + 1, 2, [&](auto, const auto* slot) {
    const bool is_deleted = slot[1] == UINT64_MAX;
    if (!is_deleted) Add(slot[0], Way::kKey, 0, contents);
  });
}

void ReferenceReader::ReadDeque(std::uint64_t deque, Contents& contents) {
  std::array<std::uint64_t, 5> head{};  // size, leftmost block, rightmost block, first index, last index
  const bool known = TryBlock(deque + layout_.value, head);
  if (!known || head[0] > kMaxItems || head[3] > kDequeBlockItems) {
    contents.is_whole = false;
    return;
  }
  // A block: the one before, 64 items, the next one.
  std::uint64_t block = head[1];
  std::uint64_t index = head[3];
  std::uint64_t done = 0;
  while (true) {
    contents.own_bytes += (kDequeBlockItems + 2) * kWord;
    const std::uint64_t here = std::min(head[0] - done, kDequeBlockItems - index);
    const bool whole = ForEachGroup(block + kWord * (1 + index), here, 1, [&](auto i, const auto* word) {
      Add(*word, Way::kItem, done + i, contents);
    });
    done += here;
    index = 0;
    if (!whole) contents.is_whole = false;
    if (!whole || done >= head[0]) return;
    if (!memory_->TryWord(block + kWord * (1 + kDequeBlockItems), block)) {
      contents.is_whole = false;
      return;
    }
  }
}

void ReferenceReader::ReadGenerator(std::uint64_t generator, Contents& contents) {
  const std::uint64_t value = generator + layout_.value;
  if (minor_ < kFirstWithFrameInside) {  // the frame is an object, which the first field points to
    std::array<std::uint64_t, 8> fields{};
    if (!TryBlock(value, fields)) return;
    for (std::size_t i = 0; i < fields.size(); ++i)
      Add(fields[i], Way::kField, layout_.value + i * kWord, contents);
    return;
  }
  const bool is_311 = minor_ == kFirstWithFrameInside;
  const std::uint64_t frame = FrameOfGenerator(generator);
  std::int8_t state = 1;
  const auto bytes = std::as_writable_bytes(std::span(&state, 1));
  if (!memory_->TryRead(value + (is_311 ? kFrameState311 : kFrameState), bytes)) contents.is_whole = false;
  // What comes before the frame, without the list of weak references, which is first.
  ReadWords(value + kWord, frame, contents);
  if (state > kExecuting) return;
  contents.own_bytes += ReadFrameParts(frame, state != kExecuting, contents);
}

void ReferenceReader::ReadFrameObject(std::uint64_t frame, const TypeInfo& type, Contents& contents) {
  if (minor_ < kFirstWithFrameInside) {
    ReadFields(frame, layout_.value + kWord, offsets_.frame.locals, type, contents);
    // Its generator owns it, not the other way round.
    std::erase_if(contents.references, [&](const Reference& reference) {
      return reference.way == Way::kField && reference.detail == offsets_.frame.generator;
    });
    ReadFrameSlots(frame, CodeOf(frame), true, contents);
    std::uint64_t items = 0;
    if (memory_->TryWord(frame + layout_.value, items) && items < kMaxSlots)
      contents.own_bytes += items * kWord;
    return;
  }
  std::array<std::uint64_t, 2> fields{};  // the frame of the caller, what it is the object of
  if (!TryBlock(frame + layout_.value, fields)) return;
  Add(fields[0], Way::kField, layout_.value, contents);
  // Of one that has returned the contents are in the object.
  const bool is_inside = fields[1] > frame && fields[1] < frame + type.size_bytes;
  if (is_inside) contents.own_bytes += ReadFrameParts(fields[1], false, contents);
}

void ReferenceReader::ReadFrame(std::uint64_t frame, Contents& contents, bool stands_still) {
  (void)ReadFrameParts(frame, stands_still, contents);
}

// Since 3.11: what the frame is of, then the slots. Returns how big those are.
std::uint64_t ReferenceReader::ReadFrameParts(std::uint64_t frame, bool stands_still, Contents& contents) {
  ReadWords(frame, frame + offsets_.frame.locals, contents);
  const std::uint64_t code = CodeOf(frame);
  ReadFrameSlots(frame, code, stands_still, contents);
  const CodeSizes sizes = SizesOf(code);
  return (sizes.locals + sizes.stack) * kWord;
}

std::uint64_t ReferenceReader::CodeOf(std::uint64_t frame) const {
  std::uint64_t code = 0;
  (void)memory_->TryWord(frame + offsets_.frame.code, code);
  return code;
}

std::uint64_t ReferenceReader::CodeOfFunction(std::uint64_t function) const {
  // Up to 3.9 it is the first field; since then globals, builtins, name and qualified name come before it.
  const std::uint32_t before = minor_ <= 9 ? 0 : 4 * kWord;
  std::uint64_t code = 0;
  return memory_->TryWord(function + layout_.value + before, code) ? code : 0;
}

std::uint64_t ReferenceReader::FrameOfGenerator(std::uint64_t generator) const {
  const std::uint64_t value = generator + layout_.value;
  if (minor_ >= kFirstWithFrameInside) return value + (minor_ == kFirstWithFrameInside ? kFrame311 : kFrame);
  std::uint64_t frame = 0;
  return memory_->TryWord(value, frame) ? frame : 0;
}

void ReferenceReader::ReadFrameSlots(std::uint64_t frame, std::uint64_t code, bool stands_still,
                                     Contents& contents) {
  const CodeSizes sizes = SizesOf(code);
  const std::uint64_t slots = frame + offsets_.frame.locals;
  std::uint64_t used = sizes.locals;  // with the stack, whose size is known only of frames that stand still
  const std::uint64_t most = sizes.locals + sizes.stack;
  std::uint64_t pointer = 0;
  std::int32_t count = 0;
  if (stands_still && offsets_.frame.stack_pointer != cpython::kAbsent) {
    if (memory_->TryWord(frame + offsets_.frame.stack_pointer, pointer) && pointer > slots)
      used = std::clamp((pointer - slots) / kWord, used, most);
  } else if (stands_still && offsets_.frame.stack_count != cpython::kAbsent &&
             memory_->TryRead(frame + offsets_.frame.stack_count,
                              std::as_writable_bytes(std::span(&count, 1))) &&
             count > 0) {
    const std::uint64_t counted =
        static_cast<std::uint64_t>(count) + (offsets_.frame.value_stack != cpython::kAbsent ? used : 0);
    used = std::clamp(counted, used, most);
  }
  const bool whole = ForEachGroup(slots, used, 1, [&](auto i, const auto* word) {
    Add(*word, i < sizes.locals ? Way::kLocal : Way::kTemporary, i, contents);
  });
  contents.is_whole = contents.is_whole && whole;
}

ReferenceReader::CodeSizes ReferenceReader::SizesOf(std::uint64_t code) {
  if (code == 0) return {};
  if (const auto known = codes_.find(code); known != codes_.end()) return known->second;
  CodeSizes sizes;
  const auto add_names = [&](std::uint32_t field) {
    std::uint64_t tuple = 0;
    std::uint64_t size = 0;
    if (field == cpython::kAbsent || !memory_->TryWord(code + field, tuple)) return;
    if (memory_->TryWord(tuple + layout_.value, size) && size <= kMaxSlots) sizes.locals += size;
  };
  add_names(offsets_.code.local_names);
  if (offsets_.code.local_kinds == cpython::kAbsent) {
    add_names(offsets_.code.cell_names);
    add_names(offsets_.code.free_names);
  }
  // co_stacksize is before co_firstlineno; up to 3.10 co_flags is in between.
  const std::uint32_t before = minor_ < kFirstWithFrameInside ? 8 : 4;
  std::uint32_t stack = 0;
  if (memory_->TryRead(code + offsets_.code.first_line - before,
                       std::as_writable_bytes(std::span(&stack, 1))))
    sizes.stack = std::min<std::uint64_t>(stack, kMaxSlots);
  codes_.emplace(code, sizes);
  return sizes;
}

void ReferenceReader::ReadTensor(std::uint64_t tensor, Contents& contents) {
  auto memory = cpython::ReadTensorMemory(*memory_, layout_, {tensor});
  if (!memory.ok()) return;
  Add(memory->storage.address.address, Way::kStorage, 0, contents);
  contents.storages.push_back(std::move(memory->storage));
  if (!memory->gradient.address) return;
  Add(memory->gradient.address.address, Way::kGradient, 0, contents);
  contents.storages.push_back(std::move(memory->gradient));
}

void ReferenceReader::ReadArray(std::uint64_t array, Contents& contents) {
  // data, int nd, dimensions, strides, base, descr, int flags
  std::array<std::uint64_t, 7> fields{};
  if (!TryBlock(array + layout_.value, fields)) return;
  const auto dimensions = static_cast<std::int32_t>(fields[1]);
  const auto flags = static_cast<std::int32_t>(fields[6]);
  if (dimensions < 1 || dimensions > kMaxDimensions || (flags & (kRowsFollow | kColumnsFollow)) == 0) return;
  const std::uint64_t outer = (flags & kRowsFollow) != 0 ? 0 : static_cast<std::uint64_t>(dimensions - 1);
  std::uint64_t count = 0;
  std::uint64_t stride = 0;
  std::uint64_t bytes = 0;
  if (!memory_->TryWord(fields[2] + outer * kWord, count)) return;
  if (!memory_->TryWord(fields[3] + outer * kWord, stride)) return;
  if (__builtin_mul_overflow(count, stride, &bytes) || !memory_->IsMapped(fields[0], bytes)) return;
  if ((flags & kOwnsData) == 0) return;
  contents.own_bytes += bytes;
  // Of the type of its elements: typeobj, four chars, int type_num.
  std::int32_t number = 0;
  const std::uint64_t at = fields[5] + layout_.value + 12;
  if (!memory_->TryRead(at, std::as_writable_bytes(std::span(&number, 1))) || number != kObjectArray) return;
  contents.is_whole = ForEachGroup(fields[0], bytes / kWord, 1,
                                   [&](auto i, const auto* word) { Add(*word, Way::kItem, i, contents); });
}

std::uint64_t ReferenceReader::TextBytes(std::uint64_t text) const {
  std::uint64_t length = 0;
  std::uint32_t state = 0;
  if (!memory_->TryWord(text + offsets_.unicode.length, length)) return 0;
  if (!memory_->TryRead(text + offsets_.unicode.state, std::as_writable_bytes(std::span(&state, 1))))
    return 0;
  state >>= offsets_.unicode.kind_shift;
  const std::uint64_t width = state & 7U;
  const bool is_ascii = (state & 16U) != 0;
  if (width > 4 || length > kMaxBytes || !memory_->IsMapped(text, length * width)) return 0;
  return (is_ascii ? offsets_.unicode.ascii_data : offsets_.unicode.other_data) + (length + 1) * width;
}

}  // namespace probing::heap
