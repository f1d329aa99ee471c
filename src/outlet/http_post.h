// One POST to somebody else's server, and what its answer means. Blocking, every wait has an end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/outlet_url.h"

namespace probing::outlet {

// Where to, with all that is secret about it.
struct Destination {
  wire::OutletUrl url;
  wire::HeaderList headers;
  std::string authority_file;
};

enum class Outcome : std::uint8_t {
  kTaken,
  kTryAgain,  // it was not there, or is too busy
  kRefused,   // it will never take this
};

struct Posted {
  Outcome outcome = Outcome::kTaken;
  std::string problem;      // "" when it was taken; has no secrets and nothing that the server said
  std::int64_t wait_s = 0;  // as it asks to wait; 0 when it does not
};

// `path` follows that of the URL. A redirection is a refusal: what is secret goes where it was meant to.
Posted HttpPost(const Destination& to, std::string_view path, std::string_view content_type,
                std::string_view body);

}  // namespace probing::outlet
