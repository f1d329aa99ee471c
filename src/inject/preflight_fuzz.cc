// What /proc says about the seccomp filters of a thread: the name in that file is the target's own choice.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "inject/preflight_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using probing::inject::Seccomp;
  const Seccomp theirs = Seccomp::Parse({reinterpret_cast<const char*>(data), size});
  (void)HasFilterOfItsOwn(theirs, Seccomp{});
  return 0;
}
