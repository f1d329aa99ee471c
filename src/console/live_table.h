// Tables made by live.py on request: what they look like, and their rows on the way out.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "pyapi/python_api.h"
#include "ring/schema.h"

namespace probing::console {

using pyapi::PyObject;
using pyapi::PythonApi;

// The columns of a declared live table that the probe makes.
Result<std::vector<ring::Column>> FindLiveTable(const std::string& table,
                                                const std::vector<std::string>& columns);

// What live_rows() of live.py returned, (rows, note or None) or a text when it failed, as
// table::Rows::Encode() writes it. Null is fine. With the GIL.
Result<std::string> EncodeLiveRows(const PythonApi& api, const std::vector<ring::Column>& columns,
                                   PyObject* answer);

}  // namespace probing::console
