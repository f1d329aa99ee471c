// What Probing has to say about itself, where nobody waits for an answer: rows of python.spans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace probing::record {

// An event with a message. From any thread; nothing when nothing is recorded.
void WriteEvent(std::string_view name, const std::string& message, std::optional<std::int64_t> step = {});

}  // namespace probing::record
