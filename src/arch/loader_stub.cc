#include "arch/loader_stub.h"

extern "C" const std::byte probing_loader_stub_begin[];
extern "C" const std::byte probing_loader_stub_end[];

namespace probing::arch {

std::span<const std::byte> LoaderStub() {
  return {probing_loader_stub_begin,
          static_cast<std::size_t>(probing_loader_stub_end - probing_loader_stub_begin)};
}

}  // namespace probing::arch
