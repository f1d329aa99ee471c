// What the path of a source file tells people: whose code it is, and a short name for it. Every face of
// Probing shortens paths with ShortPath(), so that a function is called the same everywhere.
#pragma once

#include <string_view>

namespace probing {

// Part of the standard library or of an installed package, as opposed to the user's own code.
bool IsLibraryFile(std::string_view file);

// "torch/nn/modules/module.py", "json/decoder.py", "train.py": without the folder that packages or the
// standard library are installed in; of all other files the name alone.
std::string_view ShortPath(std::string_view file);

}  // namespace probing
