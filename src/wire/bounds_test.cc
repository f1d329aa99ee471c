#include "wire/bounds.h"

#include <gtest/gtest.h>

#include "wire/settings.h"

namespace probing::wire {
namespace {

std::string Canonical(std::string_view name, std::string_view text) {
  const Result<const Setting*> setting = FindSetting(name);
  const Result<std::string> value =
      setting.ok() ? CanonicalValue(**setting, text) : Result<std::string>(setting.error());
  return value.ok() ? *value : "error";
}

TEST(Bounds, AreNamesAndNumbers) {
  const auto bounds = ParseBounds("loss>10, acc1 < 0.2");
  ASSERT_TRUE(bounds.ok());
  ASSERT_EQ(bounds->size(), 2U);
  EXPECT_TRUE((*bounds)[0].IsCrossed(10.5));
  EXPECT_FALSE((*bounds)[0].IsCrossed(10));
  EXPECT_TRUE((*bounds)[1].IsCrossed(0.1));
  EXPECT_FALSE((*bounds)[1].IsCrossed(0.3));
}

TEST(Bounds, OfASetting) {
  EXPECT_EQ(Canonical("probing.stalls.metrics", "loss>10, acc1 < 0.2"), "loss>10,acc1<0.2");
  EXPECT_EQ(Canonical("probing.stalls.metrics", ""), "none");
  for (const char* wrong : {"loss", "loss>", ">3", "loss>x", "loss>nan", "a b>3", ",", "loss>>3"})
    EXPECT_EQ(Canonical("probing.stalls.metrics", wrong), "error") << wrong;
}

TEST(Names, OfASetting) {
  EXPECT_EQ(Canonical("probing.stalls.exceptions", " A, b.C "), "A,b.C");
  EXPECT_EQ(Canonical("probing.stalls.exceptions", "none"), "none");
  EXPECT_EQ(Canonical("probing.stalls.exceptions", "A,,B"), "error");
}

}  // namespace
}  // namespace probing::wire
