// What /proc says about the seccomp filters and capabilities of a thread: the name in that file is the
// target's own choice.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "inject/preflight_rules.h"
#include "inject/sandbox.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::inject;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)HasFilterOfItsOwn(Seccomp::Parse(text), Seccomp{});
  (void)Capabilities{}.Lacking(Capabilities::Parse(text));
  return 0;
}
