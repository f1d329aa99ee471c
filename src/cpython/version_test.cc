#include "cpython/version.h"

#include <gtest/gtest.h>

namespace probing::cpython {
namespace {

using namespace std::literals;

TEST(Version, FromHex) {
  EXPECT_EQ(VersionFromHex(0x030c01f0), (Version{3, 12, 1}));
  EXPECT_EQ(VersionFromHex(0x030e0af0).ToText(), "3.14.10");
}

TEST(Version, FromFileNames) {
  EXPECT_EQ(VersionFromFileName("python3.8"), (Version{3, 8, -1}));
  EXPECT_EQ(VersionFromFileName("libpython3.7m.so.1.0"), (Version{3, 7, -1}));
  EXPECT_EQ(VersionFromFileName("python3.13t"), (Version{3, 13, -1}));
  EXPECT_EQ(VersionFromFileName("python3"), std::nullopt);
  EXPECT_EQ(VersionFromFileName("python3.x"), std::nullopt);
  EXPECT_EQ(VersionFromFileName("ld-linux-x86-64.so.2"), std::nullopt);
}

TEST(Version, FromTheTextThatPyGetVersionKeeps) {
  EXPECT_EQ(VersionFromVariables("\0\0003.8.18 (default, May  9 2026)\0"sv), (Version{3, 8, 18}));
  EXPECT_EQ(VersionFromVariables("\0003.13.0rc2 (main)"sv), (Version{3, 13, 0}));
  EXPECT_EQ(VersionFromVariables("\0003.9.2+ (heads)"sv), (Version{3, 9, 2}));
}

TEST(Version, OtherTextsAreNotTaken) {
  EXPECT_EQ(VersionFromVariables("\0003.40.1\0"sv), std::nullopt);  // SQLite
  EXPECT_EQ(VersionFromVariables("\0\0003.4.7 (default, May  9 2017)\0"sv), (Version{3, 4, 7}));
  EXPECT_EQ(VersionFromVariables("\0\0003.3.7 (default, May  9 2017)\0"sv), std::nullopt);
  EXPECT_EQ(VersionFromVariables("versions/3.8.18 (default"sv), std::nullopt);  // the end of another text
  EXPECT_EQ(VersionFromVariables("\0003."sv), std::nullopt);
  EXPECT_EQ(VersionFromVariables(""sv), std::nullopt);
}

}  // namespace
}  // namespace probing::cpython
