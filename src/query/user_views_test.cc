#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "query/format.h"
#include "query/sample_test.h"

namespace probing::query {
namespace {

class Views : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/probing-views-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& sql) { std::ofstream(folder_ + "/" + name) << sql; }

  std::string Ask(std::string_view sql) {
    EngineOptions options;
    options.sources = SampleSources();
    options.view_directory = folder_;
    Result<std::unique_ptr<Engine>> engine = Engine::Open(std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    std::string text;
    const auto writer =
        MakeFormatWriter(**engine, {Format::kCsv, 0}, [&](std::string_view bytes) -> Result<void> {
          text += bytes;
          return {};
        });
    Outcome outcome = (*engine)->Execute(sql, SampleTargets(), {}, *writer);
    warnings_ = outcome.warnings;
    if (outcome.error) return outcome.error->message;
    EXPECT_TRUE(writer->End().ok());
    return text;
  }

  std::string folder_;
  std::vector<std::string> warnings_;
};

TEST_F(Views, LastAndMayUseEveryTable) {
  Write("a.sql",
        "CREATE VIEW slow AS SELECT * FROM python.torch_trace WHERE duration_ms > 3;\n"
        "CREATE MACRO half(x) AS x / 2;\nCREATE VIEW busy AS SELECT * FROM system.cpu");
  EXPECT_EQ(Ask("SELECT count(*) AS n, half(3.0) AS h FROM slow"), "n,h\r\n2,1.5\r\n");
  EXPECT_EQ(Ask("SELECT count(*) AS n FROM busy"), "n\r\n10\r\n");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Views, ABrokenFileIsAWarningAndNothingElse) {
  Write("broken.sql", "CREATE VIEW v AS\nSELECT * FORM x");
  Write("fine.sql", "CREATE VIEW fine AS SELECT 1 AS a");
  EXPECT_EQ(Ask("SELECT * FROM fine"), "a\r\n1\r\n");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("broken.sql"), std::string::npos);
  EXPECT_NE(warnings_[0].find("SELECT * FORM x\n"), std::string::npos) << warnings_[0];
}

TEST_F(Views, OtherStatementsAreNotRun) {
  Write("bad.sql", "SET threads = 7; COPY (SELECT 1) TO '" + folder_ +
                       "/out.csv'; CREATE TABLE t AS SELECT 1 AS a;"
                       "CREATE VIEW stolen AS SELECT * FROM read_text('/etc/hostname'); CREATE VIEW good AS "
                       "SELECT 2 AS a");
  EXPECT_EQ(Ask("SELECT * FROM good"), "a\r\n2\r\n");
  EXPECT_EQ(warnings_.size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out.csv"));
  EXPECT_NE(Ask("SELECT * FROM t").find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace probing::query
