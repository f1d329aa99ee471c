#include "base/source_path.h"

#include <gtest/gtest.h>

namespace probing {
namespace {

TEST(SourcePath, PackagesAreNamedFromTheirFolderOn) {
  EXPECT_EQ(ShortPath("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"),
            "torch/nn/modules/module.py");
  EXPECT_EQ(ShortPath("/usr/lib/python3/dist-packages/yaml/loader.py"), "yaml/loader.py");
  EXPECT_EQ(ShortPath("/usr/lib/python3.11/json/decoder.py"), "json/decoder.py");
  EXPECT_EQ(ShortPath("/opt/lib64/python3.12/threading.py"), "threading.py");
}

TEST(SourcePath, OtherFilesByTheirName) {
  EXPECT_EQ(ShortPath("/srv/work/train.py"), "train.py");
  EXPECT_EQ(ShortPath("train.py"), "train.py");
  EXPECT_EQ(ShortPath("<string>"), "<string>");
  EXPECT_EQ(ShortPath(""), "");
}

TEST(SourcePath, WhatIsInstalledIsLibrary) {
  EXPECT_TRUE(IsLibraryFile("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"));
  EXPECT_TRUE(IsLibraryFile("/usr/lib64/python3.12/threading.py"));
  EXPECT_TRUE(IsLibraryFile("<frozen runpy>"));
  EXPECT_FALSE(IsLibraryFile("/srv/work/train.py"));
  EXPECT_FALSE(IsLibraryFile("<stdin>"));
}

}  // namespace
}  // namespace probing
