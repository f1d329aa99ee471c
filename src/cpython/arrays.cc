#include "cpython/arrays.h"

#include <array>
#include <span>
#include <vector>

#include "cpython/array_numbers.h"
#include "cpython/block.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::int64_t kMaxDimensions = 64;
constexpr std::size_t kMaxTypeName = 64;

// NPY_TYPES: part of numpy's ABI, the same in 1 and 2.
constexpr std::array<const char*, 24> kNumpyTypes = {
    "bool",       "int8",   "uint8",  "int16",   "uint16",  "int32",      "uint32",      "int64",
    "uint64",     "int64",  "uint64", "float32", "float64", "float128",   "complex64",   "complex128",
    "complex256", "object", "bytes",  "str",     "void",    "datetime64", "timedelta64", "float16"};

// c10::ScalarType: numbers are never used again, new ones are added at the end.
constexpr std::array<const char*, 46> kTorchTypes = {"uint8",
                                                     "int8",
                                                     "int16",
                                                     "int32",
                                                     "int64",
                                                     "float16",
                                                     "float32",
                                                     "float64",
                                                     "complex32",
                                                     "complex64",
                                                     "complex128",
                                                     "bool",
                                                     "qint8",
                                                     "quint8",
                                                     "qint32",
                                                     "bfloat16",
                                                     "quint4x2",
                                                     "quint2x4",
                                                     "bits1x8",
                                                     "bits2x4",
                                                     "bits4x2",
                                                     "bits8",
                                                     "bits16",
                                                     "float8_e5m2",
                                                     "float8_e4m3fn",
                                                     "float8_e5m2fnuz",
                                                     "float8_e4m3fnuz",
                                                     "uint16",
                                                     "uint32",
                                                     "uint64",
                                                     "uint1",
                                                     "uint2",
                                                     "uint3",
                                                     "uint4",
                                                     "uint5",
                                                     "uint6",
                                                     "uint7",
                                                     "int1",
                                                     "int2",
                                                     "int3",
                                                     "int4",
                                                     "int5",
                                                     "int6",
                                                     "int7",
                                                     "float8_e8m0fnu",
                                                     "float4_e2m1fn_x2"};

// c10::DeviceType: the same.
constexpr std::array<const char*, 21> kDevices = {
    "cpu",   "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",  "fpga", "maia", "xla",          "vulkan",
    "metal", "xpu",  "mps",    "meta",   "hpu",    "ve",    "lazy", "ipu",  "mtia", "privateuseone"};

Error Unknown() { return {Code::kFailed, "not an array, or one of a layout that is not known", ""}; }

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

Result<std::vector<std::int64_t>> ReadShape(const Memory& memory, RemoteAddress at, std::int64_t count) {
  if (count < 0 || count > kMaxDimensions) return Unknown();
  std::vector<std::int64_t> shape(static_cast<std::size_t>(count));
  if (count > 0) RETURN_IF_ERROR(memory.Read(at, std::as_writable_bytes(std::span(shape))));
  return shape;
}

// c10::TensorImpl from its count of dimensions on.
struct TensorFields {
  std::int64_t dimensions;
  std::array<std::int64_t, 10> sizes_and_strides;  // five of each, or a pointer to both
  std::int64_t storage_offset;
  std::int64_t elements;
  std::uint16_t type;
  std::uint8_t device;
  std::int8_t device_index;  // -1: it has no number
  std::uint8_t has_device;
};
constexpr std::int64_t kMaxInline = 5;
constexpr std::uint32_t kStorage = 16;   // in a c10::TensorImpl: a pointer
constexpr std::uint32_t kAutograd = 24;  // the same; null when it never had a gradient
constexpr std::int64_t kMaxStorageBytes = std::int64_t{1} << 44;
constexpr std::uint8_t kCpu = 0;

bool HasElements(const std::vector<std::int64_t>& shape, std::int64_t elements) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return false;
  }
  return product == elements;
}

Result<std::string> ReadNumber(const Memory& memory, RemoteAddress at, const NumberType& type) {
  std::array<std::byte, kMaxNumberBytes> bytes{};
  RETURN_IF_ERROR(memory.Read(at, std::span(bytes).first(type.size_bytes)));
  return type.format(bytes.data());
}

// Types that repr() does not name, because they are what numbers of Python become.
bool IsDefaultType(std::string_view name, std::string_view number) {
  return name == number || name == "bool" || name == "int64" || name == "complex64";
}

// c10::StorageImpl: vtable, counts, the data, what frees it and how, its device, the size.
Result<std::string> ReadElement(const Memory& memory, RemoteAddress storage, const TensorFields& fields) {
  const NumberType* type = FindNumberType(kTorchTypes[fields.type]);
  if (type == nullptr || fields.device != kCpu || !storage) return Unknown();
  ASSIGN_OR_RETURN(const Block block, Block::Read(memory, storage, 56));
  const RemoteAddress data = block.GetPointer(16);
  const auto offset = static_cast<std::uint64_t>(fields.storage_offset);
  const auto size = block.Get<std::uint64_t>(48);
  if (!data || block.Get<std::uint8_t>(40) != kCpu || size < type->size_bytes ||
      offset > size / type->size_bytes - 1)
    return Unknown();
  ASSIGN_OR_RETURN(std::string text, ReadNumber(memory, data + offset * type->size_bytes, *type));
  if (!IsDefaultType(type->name, "float32")) text += ", dtype=torch." + std::string(type->name);
  return text;
}

// `tensor` is where it begins, `at` where its fields are.
Result<std::string> DescribeFields(const Memory& memory, RemoteAddress tensor, RemoteAddress at,
                                   const std::string& class_name) {
  ASSIGN_OR_RETURN(const auto fields, memory.ReadValue(at.As<TensorFields>()));
  const RemoteAddress sizes{fields.dimensions <= kMaxInline
                                ? at.address + offsetof(TensorFields, sizes_and_strides)
                                : static_cast<std::uint64_t>(fields.sizes_and_strides[0])};
  ASSIGN_OR_RETURN(const auto shape, ReadShape(memory, sizes, fields.dimensions));
  if (!HasElements(shape, fields.elements) || fields.has_device != 1 || fields.device >= kDevices.size() ||
      fields.type >= kTorchTypes.size() || fields.device_index < -1 || fields.storage_offset < 0) {
    return Unknown();
  }
  if (shape.empty()) {
    const auto storage = memory.ReadValue((tensor + kStorage).As<RemoteAddress>());
    const auto number = storage.ok() ? ReadElement(memory, *storage, fields) : Result<std::string>(Unknown());
    if (number.ok()) return (class_name == "Tensor" ? "tensor" : class_name) + "(" + *number + ")";
  }
  std::string text = class_name + ShapeText(shape) + " " + kTorchTypes[fields.type] + " ";
  text += kDevices[fields.device];
  if (fields.device_index >= 0) text += ":" + std::to_string(fields.device_index);
  return text;
}

// Where the C++ object of a Python tensor is, and its fields from the count of dimensions on.
struct TensorPlace {
  RemoteAddress tensor, fields;
};

Result<TensorPlace> FindTensor(const Memory& memory, const ObjectLayout& layout, RemoteAddress object) {
  // The C++ object is first in the Python one; up to 2.9 after a word that says whether it is borrowed.
  ASSIGN_OR_RETURN(const Block block, Block::Read(memory, object + layout.value, 16));
  for (const std::uint32_t place : {0U, 8U}) {
    const RemoteAddress tensor = block.GetPointer(place);
    if (!tensor || tensor.address % 8 != 0) continue;
    // It begins: vtable, counts, storage, autograd, extra, version. Then comes the pointer back, in releases
    // up to 2.9 after one to the interpreter; its lowest bit may say who owns whom.
    const auto head = Block::Read(memory, tensor, 64);
    if (!head.ok()) continue;
    for (const std::uint32_t back : {48U, 56U}) {
      if ((head->Get<std::uint64_t>(back) & ~std::uint64_t{1}) != object.address) continue;
      return TensorPlace{tensor, tensor + back + 8};
    }
  }
  return Unknown();
}

Result<TensorStorage> ReadStorage(const Memory& memory, RemoteAddress storage) {
  if (!storage) return Unknown();
  ASSIGN_OR_RETURN(const Block block, Block::Read(memory, storage, 56));
  const auto device = block.Get<std::uint8_t>(40);
  const auto index = block.Get<std::int8_t>(41);
  const auto size = block.Get<std::int64_t>(48);
  if (device >= kDevices.size() || index < -1 || size < 0 || size > kMaxStorageBytes) return Unknown();
  std::string name = kDevices[device];
  if (index >= 0) name += ":" + std::to_string(index);
  return TensorStorage{storage, static_cast<std::uint64_t>(size), std::move(name)};
}

}  // namespace

Result<std::string> DescribeArray(const Memory& memory, const ObjectLayout& layout, RemoteAddress object,
                                  const std::string& class_name) {
  // data, int nd, dimensions, strides, base, descr
  ASSIGN_OR_RETURN(const Block array, Block::Read(memory, object + layout.value, 48));
  ASSIGN_OR_RETURN(const auto shape, ReadShape(memory, array.GetPointer(16), array.Get<std::int32_t>(8)));
  // typeobj, four chars, int type_num
  ASSIGN_OR_RETURN(const auto number,
                   memory.ReadValue((array.GetPointer(40) + layout.value + 12).As<std::int32_t>()));
  const bool known = number >= 0 && number < static_cast<std::int32_t>(kNumpyTypes.size());
  const std::string name = known ? kNumpyTypes[static_cast<std::size_t>(number)] : "of its own type";
  const NumberType* type = FindNumberType(name);
  if (shape.empty() && type != nullptr) {
    ASSIGN_OR_RETURN(std::string text, ReadNumber(memory, array.GetPointer(0), *type));
    if (!IsDefaultType(type->name, "float64")) text += ", dtype=" + name;
    return (class_name == "ndarray" ? "array" : class_name) + "(" + text + ")";
  }
  return class_name + ShapeText(shape) + " " + name;
}

Result<std::string> DescribeScalar(const Memory& memory, const ObjectLayout& layout, RemoteAddress object,
                                   const std::string& type) {
  const std::string name = type.substr(type.rfind('.') + 1);
  if (name == "datetime64" || name == "timedelta64") {
    // the count, the unit, how many of it
    ASSIGN_OR_RETURN(const Block block, Block::Read(memory, object + layout.value, 16));
    const auto format = name == "datetime64" ? FormatDatetime64 : FormatTimedelta64;
    std::string text =
        format(block.Get<std::int64_t>(0), block.Get<std::int32_t>(8), block.Get<std::int32_t>(12));
    if (text.empty()) return Unknown();
    return text;
  }
  const NumberType* number = FindNumberType(name);
  if (number == nullptr) return Unknown();
  // Aligned as C does it: a long double starts at 16 bytes, which the head of an object has.
  ASSIGN_OR_RETURN(const std::string text, ReadNumber(memory, object + layout.value, *number));
  if (number->name == "bool") return "np." + text + "_";
  const bool quoted = number->name == "longdouble" || number->name == "clongdouble";
  return "np." + std::string(number->name) + (quoted ? "('" + text + "')" : "(" + text + ")");
}

Result<std::string> DescribeTensor(const Memory& memory, const ObjectLayout& layout, RemoteAddress object,
                                   const std::string& class_name) {
  ASSIGN_OR_RETURN(const TensorPlace place, FindTensor(memory, layout, object));
  return DescribeFields(memory, place.tensor, place.fields, class_name);
}

Result<TensorMemory> ReadTensorMemory(const Memory& memory, const ObjectLayout& layout,
                                      RemoteAddress object) {
  ASSIGN_OR_RETURN(const TensorPlace place, FindTensor(memory, layout, object));
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, place.tensor, 64));
  TensorMemory result;
  ASSIGN_OR_RETURN(result.storage, ReadStorage(memory, head.GetPointer(kStorage)));
  ASSIGN_OR_RETURN(const auto table, memory.ReadValue(head.GetPointer(kStorage).As<std::uint64_t>()));
  const RemoteAddress autograd = head.GetPointer(kAutograd);
  if (!autograd) return result;
  // vtable, the gradient
  const auto fields = Block::Read(memory, autograd, 16);
  if (!fields.ok()) return result;
  // One that is not defined has no storage, and what is none has another vtable.
  const RemoteAddress gradient = fields->GetPointer(8);
  const auto storage = memory.ReadValue((gradient + kStorage).As<RemoteAddress>());
  if (!gradient || !storage.ok() || !*storage) return result;
  const auto its_table = memory.ReadValue(storage->As<std::uint64_t>());
  if (!its_table.ok() || *its_table != table) return result;
  if (auto read = ReadStorage(memory, *storage); read.ok()) result.gradient = std::move(*read);
  return result;
}

Result<std::string> DescribeTorchType(const Memory& memory, const ObjectLayout& layout,
                                      RemoteAddress object) {
  // The number, then the name as an array of characters.
  ASSIGN_OR_RETURN(const std::string name, memory.ReadCString(object + layout.value + 1, kMaxTypeName));
  for (const char* known : kTorchTypes) {
    if (name == known) return "torch." + name;
  }
  return Unknown();
}

Result<std::string> DescribeTorchDevice(const Memory& memory, const ObjectLayout& layout,
                                        RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto fields,
                   memory.ReadValue((object + layout.value).As<std::array<std::uint8_t, 2>>()));
  const auto index = static_cast<std::int8_t>(fields[1]);
  if (fields[0] >= kDevices.size() || index < -1) return Unknown();
  return std::string("device(type='") + kDevices[fields[0]] + "'" +
         (index >= 0 ? ", index=" + std::to_string(index) : "") + ")";
}

}  // namespace probing::cpython
