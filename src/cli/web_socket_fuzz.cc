// What the other end of `probing repl` sends after the handshake: half of it came with its last line. Every
// message is one, or the connection is gone.
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

#include "cli/web_socket.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const ScopedFd other(ends[1]);
  const std::string_view late = bytes.substr(size / 2);
  (void)!send(other.get(), late.data(), late.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(other.get(), SHUT_WR);
  cli::WebSocket socket(net::Channel{ScopedFd(ends[0])}, std::string(bytes.substr(0, size / 2)));
  (void)socket.StillThere();
  for (std::size_t messages = 0;; ++messages) {
    const Result<std::string> message = socket.Receive();
    if (!message.ok()) return 0;
    if (message->size() > size || messages > size) std::abort();
  }
}
