#include "wire/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
