// Native frames of `probing backtrace --native`, as text and as JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "unwind/mixed_reader.h"

namespace probing::backtrace {

// "    0x7f34574a65d8 pthread_cond_wait+0x1e8 (libc.so.6)". A name that would not fit into the columns is
// shortened (unwind::FitName): those of C++ go on for pages. 0 columns: whole. JSON has it whole.
std::string FormatNativeFrame(const unwind::NativeFrame& frame, std::size_t columns);

// All frames of a reading, and remarks where something is missing. Python frames look as ever:
// `format_python` makes a line of one.
std::string FormatMixed(const unwind::MixedReading& reading, std::size_t columns,
                        const std::function<std::string(const cpython::Frame&)>& format_python);

// `python_to_json` makes an object of a Python frame.
nlohmann::ordered_json MixedToJson(
    const unwind::MixedReading& reading,
    const std::function<nlohmann::ordered_json(const cpython::Frame&)>& python_to_json);

}  // namespace probing::backtrace
