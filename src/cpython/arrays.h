// Arrays and scalars of numpy and tensors of torch, read from outside: shape, type of elements and device,
// and the value of what is a single number in the memory of the process.
//
// Their layouts are not Python's, and torch's changes between releases. So nothing is believed that
// does not prove itself: a tensor points back to its Python object, and its sizes have to multiply to the
// number of elements it says it has. What does not fit is an error. All input is untrusted.
#pragma once

#include <string>

#include "cpython/object_layout.h"

namespace probing::cpython {

// "ndarray(3, 4) float32"; `class_name` is "ndarray" or that of a class made of it. One without dimensions is
// "array(1.5, dtype=float32)", as repr() has it.
Result<std::string> DescribeArray(const process::Memory& memory, const ObjectLayout& layout,
                                  process::RemoteAddress object, const std::string& class_name);

// "np.float32(0.5)", as numpy 2 writes it. `type` is the name of the class: "numpy.float32".
Result<std::string> DescribeScalar(const process::Memory& memory, const ObjectLayout& layout,
                                   process::RemoteAddress object, const std::string& type);

// "Tensor(3, 4) bfloat16 cuda:0"; `class_name` is "Tensor", "Parameter"…. One without dimensions in the
// memory of the process is "tensor(0.25)" or "tensor(0.25, dtype=torch.float64)". Knows the layouts of
// torch 2.
Result<std::string> DescribeTensor(const process::Memory& memory, const ObjectLayout& layout,
                                   process::RemoteAddress object, const std::string& class_name);

// The memory behind a tensor, which it may share with others.
struct TensorStorage {
  process::RemoteAddress address;  // of the c10::StorageImpl
  std::uint64_t size_bytes = 0;
  std::string device;  // "cpu", "cuda:0"; on "meta" nothing is allocated
};
struct TensorMemory {
  TensorStorage storage;
  TensorStorage gradient;  // of `.grad`; its address is null when there is none, or it cannot be told
};
// Fails for tensors without a storage (sparse ones…) and for layouts that are not known.
Result<TensorMemory> ReadTensorMemory(const process::Memory& memory, const ObjectLayout& layout,
                                      process::RemoteAddress object);

// "torch.float32"
Result<std::string> DescribeTorchType(const process::Memory& memory, const ObjectLayout& layout,
                                      process::RemoteAddress object);
// "device(type='cuda', index=0)"
Result<std::string> DescribeTorchDevice(const process::Memory& memory, const ObjectLayout& layout,
                                        process::RemoteAddress object);

}  // namespace probing::cpython
