#include "inject/way_back.h"

#include <cstring>

namespace probing::inject {

WayBack::WayBack(const SavedState& state, process::RemoteAddress trampoline, std::size_t data_bytes)
    : frame_(arch::MakeSignalFrame(state.registers, state.vectors, state.signal_mask, trampoline.address,
                                   data_bytes)),
      next_data_(frame_.data) {}

process::RemoteAddress WayBack::Add(std::span<const std::byte> data) {
  const process::RemoteAddress address{next_data_};
  std::memcpy(&frame_.bytes[next_data_ - frame_.start], data.data(), data.size());
  next_data_ += (data.size() + 15) / 16 * 16;
  return address;
}

}  // namespace probing::inject
