// What heap.py gets of us: a walk through all objects the collector knows, in slices of a few milliseconds.
//
//   heap_slice(cursor, begins, hold_us, mode, argument, skipped) -> [goes_on, …]
//
// `cursor` is an empty list of heap.py's, which this function moves through the collector's own lists: where
// it is when the GIL changes hands, the next slice goes on, whatever the job has made or freed meanwhile. No
// list of all objects is made, and no other object is held between two slices. What follows `goes_on`:
//   mode "pick", argument a tuple of classes     weak references to objects of these classes and their heirs
//   mode "hold", the same                        the objects
//   mode "count", argument None                  class, how many, class, how many, …
//   mode "refer", argument of address_set()      of what refers to those objects: holder, address, key, …
//                                                (holder an address when it is a tuple; key of a dict or
//                                                None)
// A tuple is never held: tuple(generator) fails, in the job, when somebody else has a reference to its
// half-made tuple while it grows.
//
//   address_set(objects) -> bytes     for "refer", of objects or of their addresses
//
// A full collection between two slices may change the order of objects: heap.py looks for that.
// Where there is no GIL, or a collector of another kind (from 3.14 on), there is one slice; heap.py says
// more.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Puts them into a dict. False with a Python exception. With the GIL.
bool AddHeapFunctions(const PythonApi& api, PyObject* dict);

}  // namespace probing::pyapi
