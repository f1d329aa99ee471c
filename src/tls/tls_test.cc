#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "tls/identity.h"
#include "tls/known_hosts.h"

namespace probing::tls {
namespace {

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    std::string name = testing::TempDir() + "/tls-XXXXXX";
    folder_ = mkdtemp(name.data());
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(TlsTest, AnIdentityIsMadeOnceAndKept) {
  const Result<Identity> first = OwnIdentity(Path("server.pem"), "node7");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->fingerprint.size(), std::string("sha256:").size() + 64);
  struct stat info{};
  ASSERT_EQ(stat(Path("server.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const Result<Identity> second = OwnIdentity(Path("server.pem"), "another name");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->fingerprint, first->fingerprint);
}

TEST_F(TlsTest, AKeyThatOthersCanReadIsNotUsed) {
  ASSERT_TRUE(OwnIdentity(Path("server.pem"), "node7").ok());
  ASSERT_EQ(chmod(Path("server.pem").c_str(), 0644), 0);
  const Result<Identity> identity = OwnIdentity(Path("server.pem"), "node7");
  ASSERT_FALSE(identity.ok());
  EXPECT_EQ(identity.error().code, Code::kPermission);
}

TEST_F(TlsTest, ANameThatCannotBeWrittenIntoACertificateIsLeftOut) {
  EXPECT_TRUE(OwnIdentity(Path("server.pem"), "x,IP:10.0.0.1\n").ok());
}

TEST_F(TlsTest, FilesThatDoNotBelongTogetherAreRefused) {
  ASSERT_TRUE(OwnIdentity(Path("a.pem"), "a").ok());
  ASSERT_TRUE(OwnIdentity(Path("b.pem"), "b").ok());
  EXPECT_TRUE(LoadIdentity(Path("a.pem"), Path("a.pem")).ok());
  EXPECT_EQ(LoadIdentity(Path("a.pem"), Path("b.pem")).error().code, Code::kUsage);
  std::ofstream(Path("text.pem")) << "hello\n";
  EXPECT_EQ(LoadIdentity(Path("text.pem"), "").error().code, Code::kUsage);
  EXPECT_EQ(LoadIdentity(Path("a.pem"), Path("text.pem")).error().code, Code::kUsage);
  EXPECT_FALSE(LoadIdentity(Path("nothing.pem"), "").ok());
}

TEST_F(TlsTest, TheFirstCertificateOfAnAddressIsBelievedAndNoOther) {
  const std::string file = Path("known_hosts");
  EXPECT_EQ(*CheckKnownHost(file, "node7:3344", "sha256:aa"), Seen::kFirst);
  EXPECT_EQ(*CheckKnownHost(file, "node7:3344", "sha256:aa"), Seen::kSame);
  EXPECT_EQ(*CheckKnownHost(file, "node7:334", "sha256:bb"), Seen::kFirst);
  const Result<Seen> other = CheckKnownHost(file, "node7:3344", "sha256:bb");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kPermission);
  EXPECT_EQ(*ReadFile(file), "node7:3344 sha256:aa\nnode7:334 sha256:bb\n");
}

TEST_F(TlsTest, AFileThatSomebodyEditedIsStillUnderstood) {
  const std::string file = Path("known_hosts");
  std::ofstream(file) << "node1:1 sha256:aa  \r\n\nnode2:2 sha256:bb";
  EXPECT_EQ(*CheckKnownHost(file, "node1:1", "sha256:aa"), Seen::kSame);
  EXPECT_EQ(*CheckKnownHost(file, "node3:3", "sha256:cc"), Seen::kFirst);
  EXPECT_EQ(*CheckKnownHost(file, "node2:2", "sha256:bb"), Seen::kSame);
  EXPECT_EQ(*CheckKnownHost(file, "node3:3", "sha256:cc"), Seen::kSame);
}

}  // namespace
}  // namespace probing::tls
