// What whoever we ask over HTTP answers: it ends, is no longer than allowed, and its fields can be looked
// for.
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

#include "net/http_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  constexpr std::size_t kMost = 4096;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const ScopedFd other(ends[1]);
  (void)!send(other.get(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(other.get(), SHUT_WR);
  net::Channel channel{ScopedFd(ends[0])};
  for (int answers = 0; answers < 3; ++answers) {
    const Result<net::HttpAnswer> answer = net::ReadAnswer(channel, Deadline::AfterMs(2000), kMost);
    if (!answer.ok()) break;
    if (answer->body.size() > kMost) std::abort();
    for (const std::string& value : answer->Headers("content-length")) {
      if (value.size() > size) std::abort();
    }
  }
  return 0;
}
