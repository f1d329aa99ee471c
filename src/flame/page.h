// A page that is opened from a file: a title and data put into a template.
#pragma once

#include <string>
#include <string_view>

namespace probing::flame {

// Replaces PROBING_TITLE and PROBING_DATA in one pass: what is put in is never looked at again. REQUIRES:
// `data` is JSON that is safe inside <script>.
std::string FillPage(std::string_view page, const std::string& title, const std::string& data);

}  // namespace probing::flame
