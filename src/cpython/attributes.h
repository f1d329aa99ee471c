// Modules, their variables, and attributes of objects, found by name from outside.
//
// Only what is stored, in `__dict__` or `__slots__`: no property, no method, and class attributes only of a
// class. Dicts of any size up to 65,536 entries; their keys are read in bulk, so a thousand modules cost
// three system calls. All input is untrusted. What is not there is a null address; an error means that it
// changed meanwhile or makes no sense.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpython/containers.h"
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
  // In its `__dict__`.
  Result<process::RemoteAddress> FindAttribute(process::RemoteAddress object, std::string_view name) const;
  // What the body of a class defines: `Task._all_tasks`.
  Result<process::RemoteAddress> FindInClass(process::RemoteAddress type, std::string_view name) const;

  // What the class of an object is called, as C code knows it: "int", "_asyncio.Task".
  Result<std::string> TypeName(process::RemoteAddress object) const;

  // In its `__slots__`.
  Result<process::RemoteAddress> FindSlot(process::RemoteAddress object, std::string_view name) const;
  Result<process::RemoteAddress> FindInDict(process::RemoteAddress dict, std::string_view name) const;

  // All attributes of an object, those in `__slots__` first; at most `max_items`. Unset ones are left out.
  struct Attribute {
    std::string name;
    process::RemoteAddress value;
  };
  struct List {
    std::vector<Attribute> attributes;
    bool is_whole = true;
  };
  Result<List> ListAttributes(process::RemoteAddress object, std::size_t max_items) const;

  // The places of fields in objects of a class that C or `__slots__` gave names, without those of its bases.
  struct Member {
    std::string name;
    std::uint64_t offset = 0;
    bool is_object = false;
  };
  std::vector<Member> ListMembers(process::RemoteAddress type, std::size_t max_items) const;

  // The value of an int that fits; for identifiers.
  Result<std::uint64_t> ReadUnsigned(process::RemoteAddress object) const;

  const ObjectLayout& layout() const { return layout_; }

 private:
  // Where an object keeps the attributes that have no slots: in a dict, in values, or nowhere.
  struct Place {
    process::RemoteAddress type;
    process::RemoteAddress dict;
    process::RemoteAddress values;
  };
  Result<Place> FindPlace(process::RemoteAddress object) const;
  Result<DictItems> ReadPlace(const Place& place, std::size_t max_items) const;
  // Of the class of an object and all its bases.
  Result<std::vector<Member>> ListSlots(process::RemoteAddress object, std::size_t max_items) const;
  // The size of an object of a class whose objects have different sizes, or nothing.
  Result<std::uint64_t> SizeOf(process::RemoteAddress object, process::RemoteAddress type) const;

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout layout_;
};

}  // namespace probing::cpython
