#include "cli/web_socket.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

namespace probing::cli {
namespace {

constexpr unsigned kContinuation = 0;
constexpr unsigned kText = 1;
constexpr unsigned kClose = 8;
constexpr unsigned kPing = 9;
constexpr unsigned kPong = 10;
constexpr unsigned char kLast = 0x80;
constexpr unsigned char kMasked = 0x80;
constexpr std::size_t kLargest = 256U << 20;

Error Gone(std::string_view why) {
  return {Code::kFailed, "the connection was lost: " + std::string(why), ""};
}

}  // namespace

WebSocket::WebSocket(net::Channel channel, std::string early)
    : channel_(std::move(channel)), buffer_(std::move(early)) {}

Result<void> WebSocket::Send(std::string_view text) { return SendFrame(kText, text); }

// What a client sends is masked: some proxies would take plain bytes for requests of their own.
Result<void> WebSocket::SendFrame(unsigned opcode, std::string_view payload) {
  std::string frame;
  frame += static_cast<char>(kLast | opcode);
  const std::uint64_t size = payload.size();
  const int size_bytes = size < 126 ? 0 : (size <= 0xFFFF ? 2 : 8);
  const std::uint64_t first = size_bytes == 0 ? size : (size_bytes == 2 ? 126 : 127);
  frame += static_cast<char>(kMasked | first);
  for (int i = size_bytes - 1; i >= 0; --i) frame += static_cast<char>(size >> (8 * i));
  std::array<char, 4> mask{};
  const unsigned number = std::random_device()();
  std::memcpy(mask.data(), &number, mask.size());
  frame.append(mask.data(), mask.size());
  for (std::size_t i = 0; i < payload.size(); ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  const Result<void> written = channel_.Write(frame);
  return written.ok() ? Result<void>() : Gone(written.error().message);
}

// Nothing when more bytes are needed.
Result<std::optional<WebSocket::Frame>> WebSocket::TakeFrame() {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(buffer_[i]); };
  const std::optional<Frame> nothing;
  if (buffer_.size() < 2) return nothing;
  std::size_t head = 2;
  std::uint64_t size = byte(1) & 0x7F;
  if (size >= 126) {
    const std::size_t size_bytes = size == 126 ? 2 : 8;
    head += size_bytes;
    if (buffer_.size() < head) return nothing;
    size = 0;
    for (std::size_t i = 2; i < head; ++i) size = size << 8 | byte(i);
  }
  if (size > kLargest) return Gone("what comes is no WebSocket");
  if (buffer_.size() - head < size) return nothing;
  std::optional<Frame> frame =
      Frame{byte(0) & 0x0FU, (byte(0) & kLast) != 0, buffer_.substr(head, static_cast<std::size_t>(size))};
  buffer_.erase(0, head + static_cast<std::size_t>(size));
  return frame;
}

Result<void> WebSocket::Handle(const Frame& frame) {
  if (frame.opcode == kClose) return Gone("the other end closed it");
  if (frame.opcode == kPing) return SendFrame(kPong, frame.payload);
  if (frame.opcode != kText && frame.opcode != kContinuation) return {};
  message_ += frame.payload;
  if (frame.is_last) ready_ = std::exchange(message_, {});
  return {};
}

Result<std::string> WebSocket::Receive() {
  while (!ready_) {
    ASSIGN_OR_RETURN(const std::optional<Frame> frame, TakeFrame());
    if (frame) {
      RETURN_IF_ERROR(Handle(*frame));
    } else {
      const Result<void> more = channel_.Read(buffer_, std::nullopt);
      if (!more.ok()) return Gone(more.error().message);
    }
  }
  return *std::exchange(ready_, std::nullopt);
}

bool WebSocket::StillThere() {
  while (true) {
    const Result<std::optional<Frame>> frame = TakeFrame();
    if (!frame.ok() || (frame->has_value() && !Handle(**frame).ok())) return false;
    if (frame->has_value()) continue;
    const Result<void> more = channel_.Read(buffer_, Deadline::AfterMs(0));
    if (!more.ok()) return more.error().code == Code::kTimeout;
  }
}

}  // namespace probing::cli
