#include "wire/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace probing::wire {
namespace {

TEST(Settings, APatternIsTakenAsItIs) {
  Settings settings(Holder::kProbe);
  EXPECT_EQ(settings.Get("probing.stalls.log"), "none");
  const std::string pattern = "timed? out; (loss|Verlust) ist .*, ä";
  EXPECT_TRUE(settings.Set("probing.stalls.log", pattern).ok());
  EXPECT_EQ(settings.Get("probing.stalls.log"), pattern);
  EXPECT_FALSE(settings.Set("probing.stalls.log", "two\nlines").ok());
  EXPECT_FALSE(settings.Set("probing.stalls.log", std::string(501, 'x')).ok());
  EXPECT_TRUE(settings.Set("probing.stalls.log", "").ok());
  EXPECT_EQ(settings.Get("probing.stalls.log"), "none");
}

TEST(Settings, EveryDefaultIsAValidAndCanonicalValue) {
  for (const Setting& setting : AllSettings()) {
    Result<std::string> value = CanonicalValue(setting, setting.default_value);
    ASSERT_TRUE(value.ok()) << setting.name << ": " << value.error().message;
    EXPECT_EQ(*value, setting.default_value) << setting.name;
    EXPECT_TRUE(setting.name.starts_with("probing."));
  }
}

TEST(Settings, AnUnknownNameSuggestsTheNearest) {
  Result<const Setting*> found = FindSetting("probing.eval.timeot");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kUsage);
  EXPECT_EQ(found.error().hint, "did you mean probing.eval.timeout?");
}

TEST(Settings, ANameLikeNoOtherSuggestsTheList) {
  EXPECT_EQ(FindSetting("xyzzy").error().hint, "`probing config` lists all settings");
}

TEST(Settings, ABadValueIsRefusedWithTheExpectedForm) {
  Settings settings(Holder::kDaemon);
  Result<void> set = settings.Set("probing.loglevel", "loud");
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code, Code::kUsage);
  EXPECT_EQ(set.error().hint, "it takes one of error, warn, info, debug");
  EXPECT_EQ(settings.Get("probing.loglevel"), "info");
}

TEST(Settings, NumbersTakeUnitsAndStayWithinBounds) {
  Settings settings(Holder::kProbe);
  EXPECT_TRUE(settings.Set("probing.eval.timeout", "500ms").ok());
  EXPECT_DOUBLE_EQ(settings.GetNumber("probing.eval.timeout"), 0.5);
  EXPECT_TRUE(settings.Set("probing.eval.max_output", "64KB").ok());
  EXPECT_EQ(settings.Get("probing.eval.max_output"), "65536");
  for (const char* bad : {"", "0", "-1", "nan", "inf", "1e9", "1 s", "10x", "1,5"}) {
    EXPECT_FALSE(settings.Set("probing.eval.timeout", bad).ok()) << bad;
  }
}

TEST(Settings, ACountIsAWholeNumberWithoutUnits) {
  Settings settings(Holder::kProbe);
  EXPECT_TRUE(settings.Set("probing.table_rows", "5e5").ok());
  EXPECT_EQ(settings.Get("probing.table_rows"), "500000");
  for (const char* bad : {"0", "1.5", "10KB", "-1", "1e30"}) {
    EXPECT_FALSE(settings.Set("probing.table_rows", bad).ok()) << bad;
  }
}

TEST(Settings, WordsAreSomeOfTheChoicesInTheirOrder) {
  Settings settings(Holder::kProbe);
  EXPECT_TRUE(settings.Set("probing.python.hooks", "loggers, gc").ok());
  EXPECT_EQ(settings.Get("probing.python.hooks"), "gc,loggers");
  EXPECT_TRUE(settings.Set("probing.python.hooks", "none").ok());
  EXPECT_EQ(settings.Get("probing.python.hooks"), "none");
  for (const char* bad : {"gc,", "gc,gc", "gcc", "gc,none", "gc|loggers"}) {
    EXPECT_FALSE(settings.Set("probing.python.hooks", bad).ok()) << bad;
  }
}

TEST(Settings, AFlagTakesTheUsualWords) {
  Settings settings(Holder::kProbe);
  EXPECT_FALSE(settings.GetFlag("probing.nested"));
  EXPECT_TRUE(settings.Set("probing.nested", "on").ok());
  EXPECT_TRUE(settings.GetFlag("probing.nested"));
}

TEST(Settings, ASettingOfSomebodyElseIsRefused) {
  EXPECT_EQ(Settings(Holder::kProbe).Set("probing.loglevel", "info").error().hint, "set it without a target");
  EXPECT_EQ(Settings(Holder::kDaemon).Set("probing.nested", "on").error().hint, "name the target with -t");
}

TEST(Settings, TheEnvironmentGivesValuesAndABadOneKeepsTheDefault) {
  setenv("PROBING_EVAL_TIMEOUT", "3", 1);
  setenv("PROBING_NESTED", "perhaps", 1);
  Settings settings(Holder::kProbe);
  const std::vector<Error> errors = settings.LoadEnvironment();
  unsetenv("PROBING_EVAL_TIMEOUT");
  unsetenv("PROBING_NESTED");
  EXPECT_EQ(settings.Get("probing.eval.timeout"), "3");
  EXPECT_FALSE(settings.GetFlag("probing.nested"));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].message, "PROBING_NESTED: probing.nested cannot be \"perhaps\"");
}

}  // namespace
}  // namespace probing::wire
