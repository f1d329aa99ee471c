// Numbers and texts as repr() shows them, cut where they are long. All input is untrusted.
#pragma once

#include <string>

#include "cpython/object_layout.h"

namespace probing::cpython {

Result<std::string> DescribeInteger(const process::Memory& memory, const ObjectLayout& layout,
                                    process::RemoteAddress object);
// "(1+2j)"
Result<std::string> DescribeComplex(const process::Memory& memory, const ObjectLayout& layout,
                                    process::RemoteAddress object);
Result<std::string> DescribeText(const process::Memory& memory, const Offsets& offsets,
                                 process::RemoteAddress object);
Result<std::string> DescribeBytes(const process::Memory& memory, const Offsets& offsets,
                                  process::RemoteAddress object);
// "bytearray(b'…')"
Result<std::string> DescribeByteArray(const process::Memory& memory, const ObjectLayout& layout,
                                      process::RemoteAddress object);

}  // namespace probing::cpython
