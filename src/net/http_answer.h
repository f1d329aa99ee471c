// An HTTP answer: a status, a few fields, a body of a length said before or in chunks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/channel.h"

namespace probing::net {

struct HttpAnswer {
  int status = 0;
  std::string head;  // lines, each with its end
  std::string body;

  // The values of all fields of that name, however its letters are written.
  std::vector<std::string> Headers(std::string_view name) const;
};

// Up to its last field; of the body there is what has come with it. For those whom only the status concerns:
// also HTTP/1.0, and without a length.
Result<HttpAnswer> ReadAnswerHead(Channel& channel, const std::optional<Deadline>& deadline);

// Waits for all of it; without a deadline for as long as it takes. A body that is said to be longer than
// max_bytes is an error before any of it is read, and so is a chunk that makes it longer.
Result<HttpAnswer> ReadAnswer(Channel& channel, const std::optional<Deadline>& deadline,
                              std::size_t max_bytes);

}  // namespace probing::net
