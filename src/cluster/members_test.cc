#include "cluster/members.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/scoped_fd.h"

namespace probing::cluster {
namespace {

// Somebody who can be reached and never answers.
class Silent {
 public:
  Silent() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    auto* address = reinterpret_cast<sockaddr*>(&name);
    socklen_t size = sizeof(name);
    EXPECT_EQ(bind(fd_.get(), address, size), 0);
    EXPECT_EQ(listen(fd_.get(), 16), 0);
    EXPECT_EQ(getsockname(fd_.get(), address, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  }

  const std::string& address() const { return address_; }
  bool WasAsked() const { return ScopedFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid(); }

 private:
  ScopedFd fd_;
  std::string address_;
};

Wanted Seeds(const Silent& seed) { return {.sources = *wire::ParsePeers(seed.address()), .around = {}}; }

TEST(MembersTest, WhoCameBeforeTheFirstLookIsAsked) {
  const Silent seed;
  const Silent early;
  Members members("ours", "");
  members.Introduce(early.address(), "127.0.0.1");
  (void)members.Meet(Seeds(seed), Deadline::AfterMs(500));
  EXPECT_TRUE(seed.WasAsked());
  EXPECT_TRUE(early.WasAsked());
}

TEST(MembersTest, WhomOtherSeedsKnewIsForgottenWithThem) {
  const Silent seed;
  const Silent other_seed;
  const Silent known;
  Members members("ours", "");
  (void)members.Meet(Seeds(seed), Deadline::AfterMs(500));
  members.Introduce(known.address(), "127.0.0.1");
  (void)members.Meet(Seeds(other_seed), Deadline::AfterMs(500));
  EXPECT_TRUE(other_seed.WasAsked());
  EXPECT_FALSE(known.WasAsked());
}

}  // namespace
}  // namespace probing::cluster
