// What a host that we ask for others may answer: torch's store, etcd, a probingd. The first byte says who is
// asked; the rest is what comes over the connection. Each answer is a Result, and no host is invented.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "cluster/etcd.h"
#include "cluster/greeting.h"
#include "cluster/tcp_store.h"

namespace {

using namespace probing;

// A port of this machine that gives everybody the same bytes and hangs up.
class Liar {
 public:
  Liar() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, raw, size) != 0 || listen(listener_, 16) != 0 ||
        getsockname(listener_, raw, &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
  }

  wire::Address address() const { return {"127.0.0.1", port_}; }

  void AnswerOnce(std::string_view bytes) const {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, 1000) != 1) return;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    char asked[4096];
    (void)!recv(client, asked, sizeof(asked), 0);
    (void)!send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(client, SHUT_WR);
    ready.fd = client;
    while (poll(&ready, 1, 1000) == 1 && recv(client, asked, sizeof(asked), MSG_DONTWAIT) > 0) {
    }
    close(client);
  }

 private:
  int listener_;
  std::uint16_t port_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Liar liar;
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int whom = data[0] % 4;
  if (whom == 0) {
    for (const std::string& host : cluster::AgentHosts(std::string(bytes))) {
      if (host.size() > 1025) std::abort();
    }
    return 0;
  }
  std::thread answering([&] { liar.AnswerOnce(bytes); });
  const Deadline deadline = Deadline::AfterMs(2000);
  if (whom == 1) (void)cluster::ReadStore(liar.address(), "key", deadline);
  if (whom == 2) (void)cluster::Etcd(liar.address(), "/probing/", "me").List(deadline);
  if (whom == 3) {
    cluster::Member member;
    member.address = liar.address();
    member = cluster::Greet(std::move(member), "127.0.0.1:1", "", deadline);
    if (member.problem.empty() && member.instance.empty()) std::abort();
  }
  answering.join();
  return 0;
}
