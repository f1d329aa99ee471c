// Modules, their variables, and attributes of objects, found by name from outside.
//
// Only what is stored: no property, no method, no class attribute. Dicts of any size up to 65,536 entries;
// their keys are read in bulk, so a thousand modules cost three system calls. All input is untrusted.
// What is not there is a null address; an error means that it changed meanwhile or makes no sense.
#pragma once

#include <string_view>

#include "cpython/object_layout.h"

namespace probing::cpython {

// Lifetime: `memory` must outlive it.
class AttributeReader {
 public:
  AttributeReader(const process::Memory& memory, const Location& location)
      : memory_(&memory), offsets_(location.offsets), layout_(ObjectLayout::Of(location)) {}

  // An entry of sys.modules.
  Result<process::RemoteAddress> FindModule(process::RemoteAddress interpreter, std::string_view name) const;
  Result<process::RemoteAddress> FindVariable(process::RemoteAddress module, std::string_view name) const;
  Result<process::RemoteAddress> FindAttribute(process::RemoteAddress object, std::string_view name) const;

  // The value of an int that fits; for identifiers.
  Result<std::uint64_t> ReadUnsigned(process::RemoteAddress object) const;

  const ObjectLayout& layout() const { return layout_; }

 private:
  Result<process::RemoteAddress> FindInDict(process::RemoteAddress dict, std::string_view name) const;

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout layout_;
};

}  // namespace probing::cpython
