// Where built-in objects keep their values. All numbers are bytes from the start of the object.
//
// Seen on 3.4.10 and 3.5.10, checked with offsetof()
// on 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.14.10 and 3.15.2. What all of them
// share counts from the end of the object's head, which is longer in free-threaded builds.
#pragma once

#include "cpython/locate.h"

namespace probing::cpython {

enum class Attributes : std::uint8_t {
  kInDict,    // up to 3.10: in a dict, and that is where the class says
  kPointers,  // 3.11: a pointer to values, one to a dict
  kTagged,    // 3.12: one pointer for both, odd when it is to values
  kInline,    // since 3.13: values in the object, and a pointer to a dict which is mostly null
};

struct ObjectLayout {
  std::uint32_t type = 8;
  std::uint32_t value = 16;  // the first field: a float's number, a list's size, a cell's content
  std::uint32_t tuple_items = 24;
  std::uint32_t function_name = 40;  // the qualified one
  std::uint32_t type_name = 24;      // a C string
  std::uint32_t type_basic_size = 32;
  std::uint32_t type_item_size = 40;
  std::uint32_t type_repr = 88;  // a pointer to the function that repr() calls
  std::uint32_t type_flags = 168;
  std::uint32_t type_members = 240;  // an array of PyMemberDef: `__slots__`, and fields in C
  std::uint32_t type_base = 256;
  std::uint32_t type_dict = 264;
  std::uint32_t type_dict_offset = 288;  // where objects of this class have their `__dict__`, up to 3.10
  std::uint32_t type_qualified_name = 864;
  std::uint32_t type_keys = kAbsent;  // since 3.11: the names of attributes that objects of it share
  // Since 3.12 the lowest bits of the first field of an int are its sign, not that of its size.
  bool int_has_tag = false;
  // Since 3.11 a table of keys has another head, and no hashes when all keys are str.
  bool dict_keys_have_kind = false;
  // Up to 3.5 a dict is one hash table of entries; later a table of indexes into them, and it has a version.
  bool dict_is_hash_table = false;
  std::uint32_t dict_values = 0;  // before the values of a dict that shares its keys with others
  // Since 3.11 the attributes of an object may be in front of it, or (3.13) behind its head.
  Attributes attributes = Attributes::kInDict;
  std::uint32_t managed_dict_before = 24;  // bytes from the object back to its `__dict__`

  static ObjectLayout Of(const Location& location) {
    const int minor = location.version.minor;
    ObjectLayout layout;
    layout.type = location.offsets.object_type;
    layout.value = layout.type + 8;
    layout.tuple_items = layout.value + (minor >= 14 ? 16 : 8);  // 3.14 keeps the hash
    layout.function_name = layout.value + (minor <= 9 ? 88 : 24);
    layout.type_name = layout.value + 8;
    layout.type_basic_size = layout.value + 16;
    layout.type_item_size = layout.value + 24;
    layout.type_repr = layout.value + 72;
    layout.type_flags = layout.value + 152;
    layout.type_members = layout.value + 224;
    layout.type_base = layout.value + 240;
    layout.type_dict = layout.value + 248;
    layout.type_dict_offset = layout.value + 272;
    layout.type_qualified_name = layout.value + (minor <= 4    ? 792
                                                 : minor <= 7  ? 832
                                                 : minor == 9  ? 840
                                                 : minor <= 11 ? 848
                                                 : minor <= 14 ? 856
                                                               : 864);
    if (minor >= 11) {
      layout.type_keys = layout.type_qualified_name + 8;
      layout.attributes = minor == 11   ? Attributes::kPointers
                          : minor == 12 ? Attributes::kTagged
                                        : Attributes::kInline;
      if (location.offsets.free_threaded) layout.managed_dict_before = 8;
    }
    layout.int_has_tag = minor >= 12;
    layout.dict_keys_have_kind = minor >= 11;
    layout.dict_is_hash_table = minor <= 5;
    layout.dict_values = minor >= 13 ? 8 : 0;
    return layout;
  }
};

}  // namespace probing::cpython
