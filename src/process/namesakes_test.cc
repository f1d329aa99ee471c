#include "process/namesakes.h"

#include <gtest/gtest.h>

namespace probing::process {
namespace {

const std::string kRoot = PROBING_TEST_ROOT "/proc";

TEST(NamesakesTest, AProcessIsFoundByItsNumberInItsContainer) {
  EXPECT_EQ(NamesakesElsewhere(7, kRoot), std::vector<pid_t>{4242});
  EXPECT_TRUE(NamesakesElsewhere(4242, kRoot).empty());
  EXPECT_TRUE(NamesakesElsewhere(88, kRoot).empty());
  EXPECT_TRUE(NamesakesElsewhere(7, kRoot + "/nothing").empty());
}

}  // namespace
}  // namespace probing::process
