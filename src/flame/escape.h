// Names from untrusted programs, made harmless for one format each.
#pragma once

#include <string>
#include <string_view>

namespace probing::flame {

bool IsValidUtf8(std::string_view text);
// Every byte that is part of no character becomes U+FFFD.
std::string ValidUtf8(std::string text);

// REQUIRES for all below: valid UTF-8.

// For text and attributes of XML 1.0 and HTML. Characters XML forbids become U+FFFD.
std::string XmlText(std::string_view text);

// With the quotes around it.
std::string JsonText(std::string_view text);
// The same, safe inside <script>: '<' is written as \u003c, which Perfetto would show as it is.
std::string ScriptText(std::string_view text);

// One frame of a collapsed stack: ';' separates frames, and a line ends with a space and a number.
std::string CollapsedText(std::string_view text);

}  // namespace probing::flame
