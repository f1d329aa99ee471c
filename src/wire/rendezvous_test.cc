#include "wire/rendezvous.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace probing::wire {
namespace {

std::string OwnSocketName() { return std::to_string(getpid()); }

TEST(Rendezvous, ListensInADirectoryThatBelongsToTheUserAlone) {
  Result<Listener> listener = Listen(OwnSocketName());
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const std::string directory = listener->path.substr(0, listener->path.rfind('/'));
  struct stat info{};
  ASSERT_EQ(stat(directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_EQ(info.st_uid, geteuid());
  unlink(listener->path.c_str());
}

TEST(Rendezvous, FindsTheProbeOfAProcessByItsPid) {
  Result<Listener> listener = Listen(OwnSocketName());
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  Result<ScopedFd> connection = ConnectToProbe(getpid());
  ASSERT_TRUE(connection.ok()) << connection.error().message;
  EXPECT_TRUE(PeerIsTrusted(connection->get()));
  Result<Peer> peer = PeerOf(connection->get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->pid, getpid());
  unlink(listener->path.c_str());
}

TEST(Rendezvous, DoesNotWaitForAFullBacklog) {
  Result<Listener> listener = Listen(OwnSocketName());
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  ASSERT_EQ(listen(listener->socket.get(), 0), 0);
  std::vector<ScopedFd> waiting;
  Result<ScopedFd> last = ConnectToProbe(getpid(), 0);
  while (last.ok() && waiting.size() < 10) {
    waiting.push_back(std::move(*last));
    last = ConnectToProbe(getpid(), 0);
  }
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, Code::kTimeout);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(ConnectToProbe(getpid(), 0).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  unlink(listener->path.c_str());
}

TEST(Rendezvous, BelievesDirectoriesOfTheUserAlone) {
  Result<Listener> listener = Listen(OwnSocketName());
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const std::string directory = listener->path.substr(0, listener->path.rfind('/'));
  const auto is_own = [&] {
    const std::vector<std::string> own = OwnRuntimeDirectories();
    return std::find(own.begin(), own.end(), directory) != own.end();
  };
  EXPECT_TRUE(is_own());
  ASSERT_EQ(chmod(directory.c_str(), 0770), 0);
  EXPECT_FALSE(is_own());
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  unlink(listener->path.c_str());
}

TEST(Rendezvous, SaysThatAProcessHasNoProbe) {
  Result<ScopedFd> connection = ConnectToProbe(getppid());
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().code, Code::kNotFound);
}

TEST(Rendezvous, DoesNotTakeASocketOfTheSameNameForTheProcess) {
  Result<Listener> impostor = Listen(std::to_string(getppid()));
  ASSERT_TRUE(impostor.ok()) << impostor.error().message;
  EXPECT_FALSE(ConnectToProbe(getppid()).ok());
  unlink(impostor->path.c_str());
}

// Runs `body` as another user in a process of its own; what it returns.
template <typename Body>
int AsUser(uid_t uid, Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(uid, uid, uid) == 0 ? body() : 99);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr uid_t kStranger = 61'234;

TEST(Rendezvous, APeerOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const ScopedFd listening = MakeListenerSocket();
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = "probing-test-" + OwnSocketName();
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // abstract: no file, no permission
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listening.get(), 4), 0);
  for (const uid_t uid : {kStranger, uid_t{0}}) {
    const pid_t child = fork();
    if (child == 0) {
      if (setresuid(uid, uid, uid) != 0) _exit(1);
      const ScopedFd own(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(own.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) _exit(2);
      char byte = 0;
      close(ends[1]);
      (void)!read(ends[0], &byte, 1);  // stays until it was looked at
      _exit(0);
    }
    const ScopedFd accepted(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(PeerIsTrusted(accepted.get()), uid == 0) << uid;
    (void)!write(ends[1], "x", 1);
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  close(ends[1]);
}

// The first place where sockets go is one that everybody can write to.
TEST(Rendezvous, ADirectoryThatOthersCanWriteToIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const std::string first = RuntimeDirectories(kStranger).front();
  struct Case {
    uid_t owner;
    mode_t mode;
    bool is_used;
  };
  for (const Case& each : {Case{kStranger, 0777, false}, Case{kStranger, 0750, false},
                           Case{kStranger + 1, 0777, false}, Case{kStranger, 0700, true}}) {
    ASSERT_EQ(mkdir(first.c_str(), 0700), 0);
    ASSERT_EQ(chown(first.c_str(), each.owner, each.owner), 0);
    ASSERT_EQ(chmod(first.c_str(), each.mode), 0);
    const int used = AsUser(kStranger, [&] {
      const Result<Listener> listener = Listen(std::to_string(getpid()));
      if (!listener.ok()) return 0;
      unlink(listener->path.c_str());
      return listener->path.starts_with(first + "/") ? 1 : 0;
    });
    EXPECT_EQ(used, each.is_used ? 1 : 0) << each.owner << " " << each.mode;
    for (const std::string& directory : RuntimeDirectories(kStranger)) rmdir(directory.c_str());
  }
}

// Root could write into it, too: the mode alone does not tell. In a /tmp of its own.
TEST(Rendezvous, RootUsesNoDirectoryOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const int used = AsUser(0, [] {
    const std::string first = RuntimeDirectories(0).front();
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) != 0 || mkdir(first.c_str(), 0700) != 0 ||
        chown(first.c_str(), kStranger, kStranger) != 0) {
      return 2;
    }
    const Result<Listener> listener = Listen(OwnSocketName());
    if (!listener.ok()) return 3;
    unlink(listener->path.c_str());
    return listener->path.starts_with(first + "/") ? 1 : 0;
  });
  EXPECT_EQ(used, 0);
}

TEST(Rendezvous, ReplacesAStaleSocket) {
  Result<Listener> first = Listen(OwnSocketName());
  ASSERT_TRUE(first.ok());
  first->socket.Reset();
  Result<Listener> second = Listen(OwnSocketName());
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(first->path, second->path);
  unlink(second->path.c_str());
}

// Two containers may share /tmp and have a process 7 each.
TEST(Rendezvous, TakesTheNextDirectoryWhenItsNameIsTaken) {
  Result<Listener> first = Listen(OwnSocketName());
  Result<Listener> second = Listen(OwnSocketName());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path, second->path);
  EXPECT_TRUE(ConnectToProbe(getpid()).ok());
  unlink(first->path.c_str());
  unlink(second->path.c_str());
}

TEST(Rendezvous, RemovesTheStaleSocketOfADeadProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const bool listening = Listen(OwnSocketName()).ok();
    _exit(listening ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const std::string path = RuntimeDirectories(geteuid()).front() + "/" + std::to_string(child) + ".sock";
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(ConnectToProbe(child).error().code, Code::kNotFound);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace probing::wire
