// Arrays of numpy and tensors of torch: shape, type of elements and device, read from outside.
//
// Their layouts are not Python's, and torch's changes between releases. So nothing is believed that
// does not prove itself: a tensor points back to its Python object, and its sizes have to multiply to the
// number of elements it says it has. What does not fit is an error. All input is untrusted.
#pragma once

#include <string>

#include "cpython/object_layout.h"

namespace probing::cpython {

// "ndarray(3, 4) float32"; `class_name` is "ndarray" or that of a class made of it.
Result<std::string> DescribeArray(const process::Memory& memory, const ObjectLayout& layout,
                                  process::RemoteAddress object, const std::string& class_name);

// "Tensor(3, 4) bfloat16 cuda:0"; `class_name` is "Tensor", "Parameter"…. Knows the layouts of torch 2.
Result<std::string> DescribeTensor(const process::Memory& memory, const ObjectLayout& layout,
                                   process::RemoteAddress object, const std::string& class_name);

}  // namespace probing::cpython
